// Tagged messages between two ranks of a communicator.
//
// A send is offered to the receiver: (tag, bytes, type) under a number of its own. A short message
// travels inside its offer, as long as the receiver has not more than a budget of them untaken; the
// send is then done at once. For a longer one the receiver answers when a receive of its own fits,
// and the two ends become owners of a stream of their own: the order of the answers is the order of
// the stream (law L2). So tags may be received in any order, what is parked is bounded, and a send
// never blocks its caller.
//
// Everything here belongs to the engine: one thread at a time, nothing blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "mccl/types.h"
#include "runtime/flight_recorder.h"
#include "runtime/operation.h"
#include "transport/link.h"

namespace mccl {

class MessageSink : public OperationSink {
 public:
  // A receive has found its sender; before on_complete().
  virtual void on_source(uint64_t peer_process) = 0;
};

// A send or a receive as it was called.
struct MessageSpec {
  Link* link = nullptr;  // to the peer; null: a receive from anybody
  std::byte* data = nullptr;
  int64_t count = 0;
  DataType dtype = DataType::Float32;
  int64_t tag = 0;
  TimeNs posted_at = 0;
  TimeNs deadline = kNever;
  uint64_t number = 0;  // the flight recorder's, which gives it
  std::shared_ptr<const StandIn> stand_in;
  std::shared_ptr<DeviceCall> device;  // null: the memory is the CPU's
  std::shared_ptr<MessageSink> sink;

  size_t bytes() const { return static_cast<size_t>(count) * dtype_bytes(dtype); }
};

class PointToPoint {
 public:
  // `fail` notes the communicator's failure; it may not call back. All references outlive this.
  PointToPoint(uint64_t communicator, RunQueue& run_queue, BufferPool& pool,
               FlightRecorder& recorder, std::function<void(const Status&)> fail);
  ~PointToPoint();
  PointToPoint(const PointToPoint&) = delete;
  PointToPoint& operator=(const PointToPoint&) = delete;

  // How both ends cut a long message, and how many of its slices may be outstanding (at least two);
  // the same on every rank, before the first call.
  void set_portions(size_t slice_bytes, uint32_t slice_count) {
    slice_bytes_ = slice_bytes;
    slice_count_ = slice_count;
  }

  // A call whose memory a device still writes is deferred, and so are later ones in its way: those
  // of the same tag to the same peer, or received under the same tag.
  void send(MessageSpec spec) { post(true, std::move(spec)); }
  void receive(MessageSpec spec) { post(false, std::move(spec)); }
  // Starts what waited for a device that is ready.
  void start_produced();

  void on_offer(Link& link, uint64_t offer, const OfferEntry& entry,
                std::span<const std::byte> message);
  void on_match(Link& link, uint64_t offer, const MatchEntry& entry);

  // Completes everything with `failure` and drops it. The communicator's streams have ended.
  void settle(const Status& failure);
  // Frees what is over; called when nobody runs.
  void sweep();
  // Fails the communicator when a deadline has passed; returns the next one.
  TimeNs expire(TimeNs now);

  // Whether a call in flight waits for the peer of `link`.
  bool needs_link(const Link& link) const;

  // Whether a receive from anybody waits.
  bool waits_for_anybody() const {
    return std::any_of(receives_.begin(), receives_.end(),
                       [](const MessageSpec& receive) { return receive.link == nullptr; }) ||
           std::any_of(deferred_.begin(), deferred_.end(),
                       [](const Deferred& one) { return one.spec.link == nullptr; });
  }

  // The oldest call that waits for a peer; null: there is none.
  const MessageSpec* oldest() const;

  uint64_t completed_count() const { return completed_count_; }
  size_t in_flight_count() const {
    return deferred_.size() + sends_.size() + receives_.size() + transfers_.size();
  }

 private:
  class Transfer;
  class SendTransfer;
  class ReceiveTransfer;

  // An offer that no receive fits yet.
  struct Unexpected {
    Link* link;
    uint64_t offer;
    OfferEntry entry;
    PooledBuffer message;
  };
  // What this end knows of a peer.
  struct Peer {
    uint64_t next_offer = 0;                 // sent
    uint64_t next_transfer = 0;              // of the stream towards us
    size_t eager_bytes_out = 0;              // sent with offers and not yet taken
    size_t eager_bytes_in = 0;               // parked here
    std::map<uint64_t, size_t> eager_sizes;  // of the offers in eager_bytes_out
  };
  struct Offered {
    Link* link;
    uint64_t offer;
    MessageSpec spec;
  };

  struct Deferred {
    bool is_send;
    MessageSpec spec;
  };

  void post(bool is_send, MessageSpec spec);
  void start(bool is_send, MessageSpec spec);
  void start_send(MessageSpec spec);
  void start_receive(MessageSpec spec);
  static bool fits(const MessageSpec& receive, const Link& link, int64_t tag);
  void match(MessageSpec receive, Link& link, uint64_t offer, const OfferEntry& entry,
             std::span<const std::byte> message);
  bool agrees(const MessageSpec& receive, const Link& link, const OfferEntry& entry);
  void complete(MessageSpec& spec, bool is_send);
  void on_transfer_over(Transfer& transfer);
  std::string describe(const MessageSpec& spec, bool is_send) const;
  std::string describe_offers(const MessageSpec& receive) const;
  void note_deadline(const MessageSpec& spec) {
    next_deadline_ = std::min(next_deadline_, spec.deadline);
  }

  uint64_t communicator_;
  RunQueue& run_queue_;
  BufferPool& pool_;
  FlightRecorder& recorder_;
  std::function<void(const Status&)> fail_;
  size_t slice_bytes_ = kStandingMessageBytesMax;
  uint32_t slice_count_ = 2;
  std::map<const Link*, Peer> peers_;
  std::list<Deferred> deferred_;      // in the order of the calls
  std::list<Offered> sends_;          // offered, not matched, in the order of the calls
  std::list<MessageSpec> receives_;   // not matched, in the order of the calls
  std::list<Unexpected> unexpected_;  // in the order of arrival
  std::vector<std::unique_ptr<Transfer>> transfers_;
  std::vector<std::unique_ptr<Transfer>> over_;
  uint64_t completed_count_ = 0;
  TimeNs next_deadline_ = kNever;
};

}  // namespace mccl
