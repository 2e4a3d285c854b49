#include "comm/engine.h"

#include <algorithm>
#include <utility>

namespace mccl {
namespace {

// Communicators that peers may leave before they exist here; beyond it some are forgotten.
constexpr size_t kEarlyLeavesMax = 1024;
// Offers of one peer, with their messages, that may wait for their communicators: it is ahead of us
// by a rendezvous and no more.
constexpr size_t kEarlyOfferBytesMax = size_t{4} << 20;
// By then an error that made a peer leave has come from the others.
constexpr TimeNs kNewsNs = 300 * kNsPerMs;

}  // namespace

void DeviceBell::ring() {
  has_rung_.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  if (wires_ != nullptr) wires_->wake();
}

void DeviceBell::detach() {
  const std::lock_guard lock(mutex_);
  wires_ = nullptr;
}

Engine::Engine(WireContext& wires, const Clock& clock, const Device& device, const Logger& logger,
               Identity identity, std::string process_name)
    : clock_(clock),
      device_(device),
      device_bell_(std::make_shared<DeviceBell>(wires)),
      transport_(wires, std::move(identity), *this,
                 [&logger](const std::string& line) { logger.warning(line); }),
      watch_(groups_, transport_, clock, logger, std::move(process_name)) {}

Engine::~Engine() {
  device_bell_->detach();
}

void Engine::add_events(const std::vector<WireEvent>& events) {
  events_.insert(events_.end(), events.begin(), events.end());
}

bool Engine::pass(bool is_idle) {
  if (!events_.empty()) {
    transport_.handle(events_, clock_.now());
    events_.clear();
  }
  if (device_bell_->take_ring()) {
    for (auto& [communicator, group] : groups_) {
      group->queue.start_produced();
      group->messages.start_produced();
    }
  }
  bool has_worked = transport_.read();
  has_worked |= run_queue_.run();
  if (!doubtful_links_.empty()) judge_links();
  for (auto& [communicator, group] : groups_) {
    if (group->queue.needs_settling()) settle(communicator, *group);
    group->queue.sweep();
    group->messages.sweep();
  }
  has_worked |= transport_.write(is_idle);
  count_completed();
  if (has_news_of_failures_) tell_of_failures();
  return has_worked || !run_queue_.is_empty();
}

namespace {

uint64_t count_of(const EngineGroup& group) {
  return group.queue.completed_count() + group.messages.completed_count() +
         (group.queue.has_failed() ? 1 : 0);
}

}  // namespace

void Engine::count_completed() {
  uint64_t count = closed_count_;
  for (const auto& [communicator, group] : groups_) count += count_of(*group);
  completed_count_ = count;
}

TimeNs Engine::expire() {
  const TimeNs now = clock_.now();
  TimeNs next =
      std::min({transport_.expire(now, has_work()), watch_.look(now), judge_late_links(now)});
  if (transport_.has_due_output()) transport_.write(true);  // questions: whoever drives may sleep
  for (auto& [communicator, group] : groups_) {
    next = std::min({next, group->queue.expire(now), group->messages.expire(now)});
    if (!group->queue.needs_settling()) continue;
    settle(communicator, *group);
    transport_.write(true);  // whoever drives may sleep now: the peers are told before
  }
  if (has_news_of_failures_) tell_of_failures();
  return next;
}

void Engine::tell_of_failures() {
  has_news_of_failures_ = false;
  if (on_failure_) on_failure_();
}

bool Engine::has_work() const {
  if (!run_queue_.is_empty() || transport_.has_due_output()) return true;
  for (const auto& [communicator, group] : groups_)
    if (group->in_flight_count() > 0) return true;
  return false;
}

EngineGroup& Engine::open_group(uint64_t communicator, std::string title,
                                std::map<uint64_t, EngineMember> members,
                                OperationQueue::Words words) {
  std::unique_ptr<EngineGroup>& group = groups_[communicator];
  MCCL_CHECK(group == nullptr);
  group = std::make_unique<EngineGroup>(communicator, run_queue_, device_, transport_.pool(),
                                        clock_, std::move(words));
  group->title = std::move(title);
  group->members = std::move(members);
  // Peers may have been faster: their messages are parked, their fingerprints are looked at now.
  transport_.visit_links([&](Link& link) {
    if (link.is_failed() && group->members.contains(link.peer_process()))
      doubtful_links_.insert(&link);
    link.visit_parked(communicator, [&](const InMessage& message) {
      group->queue.on_message_head(message.sequence, message.fingerprint, link.peer_process());
    });
  });
  const auto offers = early_offers_.find(communicator);
  if (offers != early_offers_.end()) {
    for (const EarlyOffer& early : offers->second) {
      early_offer_bytes_[early.link] -= sizeof(EarlyOffer) + early.message.size();
      if (group->members.contains(early.link->peer_process()))
        group->messages.on_offer(*early.link, early.offer, early.entry, early.message);
    }
    early_offers_.erase(offers);
  }
  const auto early = early_leaves_.find(communicator);
  if (early != early_leaves_.end()) {
    for (const auto& [process, reason] : early->second) {
      if (!group->members.contains(process)) continue;
      if (reason.is_ok())
        group->left.insert(process);
      else
        group->queue.fail(reason);
    }
    early_leaves_.erase(early);
  }
  return *group;
}

EngineGroup* Engine::find_group(uint64_t communicator) {
  const auto found = groups_.find(communicator);
  return found == groups_.end() ? nullptr : found->second.get();
}

void Engine::close_group(uint64_t communicator, const Status& reason) {
  EngineGroup* group = find_group(communicator);
  if (group == nullptr) return;
  const bool is_clean = group->in_flight_count() == 0 && !group->queue.has_failed();
  if (!is_clean) {
    const bool is_own_end = !group->queue.has_failed();
    group->queue.fail(reason);
    if (group->queue.needs_settling()) {
      settle(communicator, *group);
      if (is_own_end) failures_.pop_back();  // nobody's failure but this group's
    }
  } else {
    tell_members(communicator, *group, Status::ok());
    end_streams(communicator, *group);
  }
  watch_.forget_group(communicator);
  closed_count_ += count_of(*group) + 1;  // one more: what it had in flight has ended just now
  groups_.erase(communicator);
}

void Engine::tell_members(uint64_t communicator, EngineGroup& group, const Status& reason) {
  for (const auto& [process, member] : group.members) {
    if (process == transport_.process_id()) continue;
    Link& link = transport_.link(process);
    // A peer that has not connected yet learns of it when it does.
    if (!link.is_failed()) link.send_leave(communicator, reason);
  }
}

void Engine::end_streams(uint64_t communicator, const EngineGroup& group) {
  transport_.visit_links([&](Link& link) {
    if (group.members.contains(link.peer_process())) link.end_communicator(communicator);
  });
}

void Engine::settle(uint64_t communicator, EngineGroup& group) {
  failures_.push_back(group.queue.failure());
  tell_members(communicator, group, group.queue.failure());
  has_news_of_failures_ = true;
  group.queue.keep_waits();
  // First the streams, so that no link refers to memory that the callers get back.
  end_streams(communicator, group);
  group.queue.settle();
  group.messages.settle(group.queue.failure());
}

void Engine::on_message_head(Link& link, const FrameHeader& head) {
  // Both ends of a message have agreed on it before its first byte.
  if (head.channel == kPointToPointChannel) return;
  EngineGroup* group = find_group(head.communicator);
  if (group == nullptr) return;
  if (!group->members.contains(link.peer_process()))
    return link.refuse("a message in a communicator of others");
  group->queue.on_message_head(head.sequence, head.fingerprint, link.peer_process());
}

void Engine::on_leave(Link& link, uint64_t communicator, const Status& reason) {
  EngineGroup* group = find_group(communicator);
  if (group == nullptr) {
    // A group that has failed there never opens here, or fails at once.
    if (!reason.is_ok()) drop_early_offers(link, communicator);
    if (early_leaves_.size() >= kEarlyLeavesMax) early_leaves_.erase(early_leaves_.begin());
    early_leaves_[communicator].try_emplace(link.peer_process(), reason);
    return;
  }
  if (!group->members.contains(link.peer_process()))
    return link.refuse("a leave of a communicator of others");
  if (reason.is_ok()) {
    group->left.insert(link.peer_process());
    doubtful_links_.insert(&link);
  } else {
    group->queue.fail(reason);
  }
}

void Engine::on_offer(Link& link, uint64_t communicator, uint64_t offer, const OfferEntry& entry,
                      std::span<const std::byte> message) {
  EngineGroup* group = find_group(communicator);
  if (group != nullptr) {
    if (!group->members.contains(link.peer_process()))
      return link.refuse("a message in a communicator of others");
    return group->messages.on_offer(link, offer, entry, message);
  }
  const size_t bytes = sizeof(EarlyOffer) + message.size();
  if (early_offer_bytes_[&link] + bytes > kEarlyOfferBytesMax)
    return link.refuse("too many messages for communicators that do not exist here yet");
  early_offer_bytes_[&link] += bytes;
  early_offers_[communicator].push_back({&link, offer, entry, {message.begin(), message.end()}});
}

void Engine::on_match(Link& link, uint64_t communicator, uint64_t offer, const MatchEntry& entry) {
  EngineGroup* group = find_group(communicator);
  if (group == nullptr) return;
  if (!group->members.contains(link.peer_process()))
    return link.refuse("an answer in a communicator of others");
  group->messages.on_match(link, offer, entry);
}

void Engine::connect_now(const PeerAddress& peer) {
  (void)transport_.connect(peer, Initiative::Ours);  // an error shows as a lost link or later
}

std::map<uint64_t, Status> Engine::lost_processes() {
  std::map<uint64_t, Status> lost;
  transport_.visit_links([&](const Link& link) {
    if (link.is_failed() && !transport_.is_forgotten(link))
      lost[link.peer_process()] = link.failure();
  });
  return lost;
}

void Engine::forget_lost_links() {
  for (const auto& [lost, failure] : lost_processes()) {
    const uint64_t process = lost;  // clang 14 captures no structured bindings
    const bool is_used = std::any_of(groups_.begin(), groups_.end(), [&](const auto& item) {
      return item.second->members.contains(process);
    });
    if (!is_used) transport_.forget(process);
  }
}

void Engine::on_probe(Link& link, const FrameHeader& head) {
  EngineGroup* group = find_group(head.communicator);
  if (group != nullptr && !group->members.contains(link.peer_process()))
    return link.refuse("a question about a communicator of others");
  if (group != nullptr && !WaitWatch::is_about_messages(head))
    group->queue.on_message_head(head.sequence, head.fingerprint, link.peer_process());
  watch_.on_probe(link, head, group);
}

void Engine::on_report(Link& link, uint64_t communicator, uint64_t /*sequence*/,
                       std::span<const std::byte> report) {
  if (!watch_.on_report(link, communicator, report)) link.refuse("a report of odd shape");
}

void Engine::drop_early_offers(const Link& link, uint64_t communicator) {
  const auto found = early_offers_.find(communicator);
  if (found == early_offers_.end()) return;
  std::erase_if(found->second, [&](const EarlyOffer& early) {
    if (early.link != &link) return false;
    early_offer_bytes_[&link] -= sizeof(EarlyOffer) + early.message.size();
    return true;
  });
  if (found->second.empty()) early_offers_.erase(found);
}

void Engine::on_link_failed(Link& link, const Status&) {
  // A peer that has never said anything may have gone because of an error that others know, before
  // this connection was complete on its side.
  if (link.bytes_read() == 0)
    late_links_[&link] = deadline_after(clock_.now(), kNewsNs);
  else
    doubtful_links_.insert(&link);
}

TimeNs Engine::judge_late_links(TimeNs now) {
  TimeNs next = kNever;
  for (const auto& [link, judged_at] : late_links_)
    if (judged_at <= now)
      doubtful_links_.insert(link);
    else
      next = std::min(next, judged_at);
  std::erase_if(late_links_, [now](const auto& item) { return item.second <= now; });
  judge_links();
  return next;
}

void Engine::judge_members_that_left(EngineGroup& group) {
  for (const uint64_t process : group.left) judge(transport_.link(process), group);
}

void Engine::judge_links() {
  for (const Link* link : doubtful_links_)
    for (auto& [communicator, group] : groups_) judge(*link, *group);
  doubtful_links_.clear();
}

void Engine::judge(const Link& link, EngineGroup& group) {
  const auto found = group.members.find(link.peer_process());
  if (found == group.members.end()) return;
  const EngineMember& peer = found->second;
  const int rank = group.members.at(transport_.process_id()).rank;
  const Operation* oldest = group.queue.oldest();
  const uint64_t complete_count =
      oldest == nullptr ? group.queue.posted_count() : oldest->sequence();
  const std::string completed =
      complete_count == 0
          ? "; no operation is complete here"
          : "; here operation " + std::to_string(complete_count - 1) + " is the last complete one";
  if (group.left.contains(link.peer_process())) {
    const bool is_alone = group.left.size() + 1 == group.members.size();
    if (group.needs_link(link) || (is_alone && group.messages.waits_for_anybody()))
      group.queue.fail(Status(StatusCode::PeerLost,
                              peer.name +
                                  " destroyed the communicator while this rank still "
                                  "needs it: the ranks made different numbers of calls" +
                                  completed,
                              rank, peer.rank));
    return;
  }
  if (link.is_failed())
    group.queue.fail(Status(StatusCode::PeerLost,
                            "lost " + peer.name + ": " + link.failure().message() + completed, rank,
                            peer.rank));
}

}  // namespace mccl
