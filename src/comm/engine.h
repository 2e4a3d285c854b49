// The passive engine of an endpoint (law L12): links, lanes and the operations of all
// communicators. It does what is possible now and returns; who calls it, when, and how to wait is
// the driver's business. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/engine_group.h"
#include "comm/wait_watch.h"
#include "mccl/device.h"
#include "mccl/wire.h"
#include "transport/transport.h"

namespace mccl {

// How a device says that a ticket has come: any thread, at any time, also when the engine is gone.
class DeviceBell {
 public:
  explicit DeviceBell(WireContext& wires) : wires_(&wires) {}

  void ring();
  // Whether it rang since the last time.
  bool take_ring() {
    return has_rung_.load(std::memory_order_relaxed) &&
           has_rung_.exchange(false, std::memory_order_acquire);
  }
  // The engine goes away.
  void detach();

 private:
  std::atomic<bool> has_rung_{false};
  std::mutex mutex_;
  WireContext* wires_;
};

class Engine final : public LinkListener {
 public:
  // All references outlive the engine. `process_name`: "host h7, pid 4711".
  Engine(WireContext& wires, const Clock& clock, const Device& device, const Logger& logger,
         Identity identity, std::string process_name);
  ~Engine() override;

  // Takes note of readiness.
  void add_events(const std::vector<WireEvent>& events);

  // One bounded round: read, run lanes, carry out failures, write. Returns whether anything
  // happened; false means that there is nothing to do until the next event or deadline. `is_idle`
  // also sends what usually waits for company (credits of small messages).
  bool pass(bool is_idle);

  // Fails what is overdue; returns the next deadline.
  TimeNs expire();

  // Whether operations are in flight or bytes are to be written that somebody may wait for.
  bool has_work() const;

  // `members`: this process among them. `title` is for messages: "group 1 of ranks 0, 3".
  EngineGroup& open_group(uint64_t communicator, std::string title,
                          std::map<uint64_t, EngineMember> members, OperationQueue::Words words);
  EngineGroup* find_group(uint64_t communicator);
  // Fails what is in flight with `reason`, tells the members, drops the group.
  void close_group(uint64_t communicator, const Status& reason);

  // An operation was posted: fails the group when it needs a member that has left. A rank leaves
  // when it has got all that was sent to it, so a new operation that sends to it is one that it
  // never made; what it sent before it left is parked and serves. Called before the lanes run.
  void judge_members_that_left(EngineGroup& group);

  // Called once after communicators have failed, with the engine held; must return soon.
  void set_on_failure(std::function<void()> on_failure) { on_failure_ = std::move(on_failure); }

  // Whether a failed link counts as lost by now.
  bool is_judged(const Link& link) const { return !late_links_.contains(&link); }

  // For devices whose tickets operations await.
  const std::shared_ptr<DeviceBell>& device_bell() const { return device_bell_; }

  // Begins a connection whatever the process ids say; for the control tree.
  void connect_now(const PeerAddress& peer);
  // Processes to which connections were made and lost.
  std::map<uint64_t, Status> lost_processes();
  // Drops lost connections that no communicator uses, so that they may be made again.
  void forget_lost_links();
  // The first errors of communicators, in the order in which they failed.
  const std::vector<Status>& failures() const { return failures_; }

  // What is known of who holds up what `communicator` waits for; empty when nothing is.
  std::string explain_wait(uint64_t communicator) const { return watch_.explain(communicator); }

  Transport& transport() { return transport_; }
  const Transport& transport() const { return transport_; }
  RunQueue& run_queue() { return run_queue_; }
  const Clock& clock() const { return clock_; }
  // Operations completed over all groups; tells a driver that somebody's wait may be over.
  uint64_t completed_count() const { return completed_count_; }

  void on_message_head(Link& link, const FrameHeader& head) override;
  void on_leave(Link& link, uint64_t communicator, const Status& reason) override;
  void on_offer(Link& link, uint64_t communicator, uint64_t offer, const OfferEntry& entry,
                std::span<const std::byte> message) override;
  void on_match(Link& link, uint64_t communicator, uint64_t offer,
                const MatchEntry& entry) override;
  void on_probe(Link& link, const FrameHeader& head) override;
  void on_report(Link& link, uint64_t communicator, uint64_t sequence,
                 std::span<const std::byte> report) override;
  void on_link_failed(Link& link, const Status& status) override;

 private:
  void judge_links();
  TimeNs judge_late_links(TimeNs now);
  void judge(const Link& link, EngineGroup& group);
  void drop_early_offers(const Link& link, uint64_t communicator);
  void settle(uint64_t communicator, EngineGroup& group);
  void end_streams(uint64_t communicator, const EngineGroup& group);
  void tell_members(uint64_t communicator, EngineGroup& group, const Status& reason);
  void count_completed();
  void tell_of_failures();

  const Clock& clock_;
  const Device& device_;
  std::shared_ptr<DeviceBell> device_bell_;
  RunQueue run_queue_;
  Transport transport_;
  EngineGroups groups_;
  WaitWatch watch_;
  // Who left a communicator that does not exist here yet.
  std::map<uint64_t, std::map<uint64_t, Status>> early_leaves_;
  // Offers of messages in a communicator that does not exist here yet.
  struct EarlyOffer {
    Link* link;
    uint64_t offer;
    OfferEntry entry;
    std::vector<std::byte> message;
  };
  std::map<uint64_t, std::vector<EarlyOffer>> early_offers_;
  std::map<const Link*, size_t> early_offer_bytes_;
  // Links whose state is to be judged once the lanes have taken what arrived before it changed.
  std::set<const Link*> doubtful_links_;
  // Failed links that are judged later, and when.
  std::map<const Link*, TimeNs> late_links_;
  std::vector<WireEvent> events_;
  std::vector<Status> failures_;
  uint64_t completed_count_ = 0;
  uint64_t closed_count_ = 0;  // of groups that are closed
  std::function<void()> on_failure_;
  bool has_news_of_failures_ = false;
};

}  // namespace mccl
