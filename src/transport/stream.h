// Streams: ordered, one-directional sequences of messages (sender, receiver, communicator,
// channel).
//
// A stream has two ends. Each end keeps a queue of owners (law L2): the operations that will use
// it, in ticket order; only the front owner may send or take, and it passes the end on after its
// last use *of that end*. Messages match by position. Back-pressure is credit and nothing else: a
// sender may have `window` messages outstanding, two small ones always, more or larger ones once
// the receiver has granted them for the operation; the credit goes back when the message is taken
// (law L1).
//
// Everything here belongs to the engine: one thread at a time, nothing blocks.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "transport/buffer_pool.h"
#include "transport/frame.h"
#include "transport/slot_ring.h"

namespace mccl {

class Link;

// Someone who waits at a stream's end; wake() means "look again", spurious calls are allowed.
class StreamOwner {
 public:
  virtual void wake() = 0;

 protected:
  ~StreamOwner() = default;
};

// The sending end.
class SendStream {
 public:
  SendStream(Link& link, uint64_t communicator, uint32_t channel)
      : link_(&link), communicator_(communicator), channel_(channel) {}
  SendStream(const SendStream&) = delete;
  SendStream& operator=(const SendStream&) = delete;

  // Appends an owner; `owner` must stay valid until it has passed the end on.
  void add_owner(StreamOwner* owner, uint64_t sequence) { owners_.push_back({owner, sequence}); }
  bool is_owned_by(const StreamOwner* owner) const {
    return !owners_.empty() && owners_.front().owner == owner;
  }
  // The front owner leaves; the next one is woken.
  void pass_on();

  // Whether the front owner may send a message of `bytes` now.
  bool has_credit(size_t bytes) const;

  // Whether the receiver has granted the front owner's operation, but nothing as long as `bytes`:
  // it expects other messages.
  bool is_too_long(size_t bytes) const;

  // Queues one message of the front owner: the concatenation of `pieces`, by reference. The memory
  // must not change until is_captured(the returned position). `owned` (may be empty) is kept until
  // then: it is where the pieces lie when nobody else owns them. Requires has_credit().
  uint32_t post(std::span<const iovec> pieces, const Fingerprint& fingerprint, PooledBuffer owned);

  // Tells the receiver which call the front owner makes, before there is a message to tell it.
  void announce(const Fingerprint& fingerprint);

  // Position of the last message queued, counted from 1 over the stream's life, modulo 2^32.
  uint32_t position() const { return queued_; }
  // Whether the bytes of the message at `position` have left the sender's memory (law L3).
  bool is_captured(uint32_t position) const {
    return static_cast<int32_t>(captured_ - position) >= 0;
  }
  // Wakes `owner` once when the message at `position` is captured.
  void watch_capture(uint32_t position, StreamOwner* owner) {
    watchers_.push_back({position, owner});
  }

  const Link& link() const { return *link_; }
  const std::string& peer_name() const;
  uint32_t channel() const { return channel_; }

 private:
  friend class Link;
  struct Owner {
    StreamOwner* owner;
    uint64_t sequence;
  };
  struct Grant {
    uint64_t sequence;
    uint32_t messages;
    uint32_t bytes_max;
  };
  struct Message {
    std::vector<iovec> pieces;  // what is left to write; capacity is reused
    size_t first_piece = 0;
    size_t bytes = 0;       // of the whole message
    size_t bytes_left = 0;  // not yet put into a frame
    uint64_t sequence = 0;
    Fingerprint fingerprint = {};
    PooledBuffer owned;
  };
  struct Watcher {
    uint32_t position;
    StreamOwner* owner;
  };

  void on_credit(uint32_t taken);
  void on_grant(const Grant& grant);
  void on_captured();
  void wake_owner() {
    if (!owners_.empty()) owners_.front().owner->wake();
  }

  Link* link_;
  uint64_t communicator_;
  uint32_t channel_;
  uint32_t queued_ = 0;    // messages posted
  uint32_t framed_ = 0;    // messages completely put into frames
  uint32_t captured_ = 0;  // messages completely written
  uint32_t taken_ = 0;     // messages that the peer has taken
  bool is_ready_ = false;  // in one of the link's ready lists
  std::deque<Owner> owners_;
  std::deque<Grant> grants_;
  uint64_t first_open_sequence_ = 0;  // grants of earlier operations come too late to be of use
  SlotRing<Message> messages_;  // posted and not captured; the first `framed` ones are in frames
  std::vector<Watcher> watchers_;
};

// A message at the receiving end.
struct InMessage {
  PooledBuffer buffer;  // empty when the bytes already lie in the posted target
  size_t bytes = 0;
  uint64_t sequence = 0;
  Fingerprint fingerprint = {};
  bool is_in_target = false;
};

// The receiving end.
class RecvStream {
 public:
  RecvStream(Link& link, uint64_t communicator, uint32_t channel)
      : link_(&link), communicator_(communicator), channel_(channel) {}
  RecvStream(const RecvStream&) = delete;
  RecvStream& operator=(const RecvStream&) = delete;

  // Appends an owner whose messages are at most `bytes_max` long. When the standing grant does not
  // cover them, `messages` (at least two) such messages are granted to the sender for this
  // operation.
  void add_owner(StreamOwner* owner, uint64_t sequence, uint32_t messages, size_t bytes_max);
  bool is_owned_by(const StreamOwner* owner) const {
    return !owners_.empty() && owners_.front().owner == owner;
  }
  void pass_on();

  // Whether the next message is complete.
  bool has_message() const { return !parked_.empty(); }
  // The next message, whose credit thereby goes back: at once when the owner expects more large
  // ones
  // (`more_follow`), else with the next data to this peer or when the engine is idle.
  InMessage take(bool more_follow);
  // The next message in place, without taking it; requires has_message().
  const InMessage& next() const { return parked_.front(); }

  // Offers memory for the front owner's next message, so that its bytes need not be parked. Taken
  // up when the message begins to arrive after this call, none is parked, and its length is the
  // target's. The owner may withdraw only by ending the communicator.
  void post_target(std::span<const iovec> pieces, size_t bytes);
  bool has_target() const { return has_target_; }

  // Complete messages that nobody has taken.
  size_t parked_count() const { return parked_.size(); }

  const Link& link() const { return *link_; }
  const std::string& peer_name() const;
  uint32_t channel() const { return channel_; }

 private:
  friend class Link;
  struct Owner {
    StreamOwner* owner;
    uint64_t sequence;
  };
  struct Grant {
    uint64_t sequence;
    uint32_t messages;
    uint32_t bytes_max;
  };

  // Whether the sender is within its standing grant or one we gave for `sequence`.
  bool allows(uint64_t sequence, size_t bytes) const;

  Link* link_;
  uint64_t communicator_;
  uint32_t channel_;
  uint32_t taken_ = 0;
  bool is_credit_pending_ = false;
  std::deque<Owner> owners_;
  std::deque<Grant> grants_;
  std::deque<InMessage> parked_;  // complete
  // The message that arrives now.
  bool is_arriving_ = false;
  InMessage arriving_;
  size_t arrived_bytes_ = 0;
  // The target posted by the front owner.
  bool has_target_ = false;
  std::vector<iovec> target_;
  size_t target_bytes_ = 0;
};

}  // namespace mccl
