#include "transport/transport.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccl {
namespace {

// How often a wait asks whether the hosts of peers are still there.
constexpr TimeNs kCheckIntervalNs = kNsPerSecond;
// What was written last may be under way when the wait is over, and the kernel does not report a
// host that leaves it unanswered.
constexpr TimeNs kCheckLongerNs = 30 * kNsPerSecond;

}  // namespace

Transport::Transport(WireContext& wires, Identity identity, LinkListener& listener,
                     Refusals::Notice notice)
    : process_id_(identity.process_id),
      listener_(listener),
      gate_(wires, std::move(identity), *this, std::move(notice)) {}

Transport::~Transport() = default;

Link& Transport::link(uint64_t process_id) {
  Link*& link = link_of_process_[process_id];
  if (link == nullptr) {
    links_.push_back(std::make_unique<Link>(process_id, listener_, pool_, work_, links_.size()));
    link = links_.back().get();
  }
  return *link;
}

Status Transport::connect(const PeerAddress& peer, Initiative initiative) {
  // Links are served in the order in which calls name them, which rotates over the ranks; the
  // control tree's parent, the same for many, is not to come first.
  const bool is_early =
      initiative == Initiative::Ours && !link_of_process_.contains(peer.process_id);
  if (is_early) return gate_.connect(peer);
  Link& target = link(peer.process_id);
  const bool is_our_turn = initiative == Initiative::Ours || process_id_ < peer.process_id;
  if (!is_our_turn || !wants(peer.process_id)) return Status::ok();
  MCCL_RETURN_IF_ERROR(gate_.connect(peer));
  target.set_opening();
  return Status::ok();
}

void Transport::handle(const std::vector<WireEvent>& events, TimeNs now) {
  for (const WireEvent& event : events) {
    if (event.acceptable) {
      gate_.set_acceptable();
      gate_.accept(now);
      continue;
    }
    const auto found = link_of_token_.find(event.token);
    if (found == link_of_token_.end()) {
      gate_.handle(event.token);
      continue;
    }
    if (event.readable) found->second->set_readable();
    if (event.writable) found->second->set_writable();
  }
  gate_.accept(now);
}

bool Transport::wants(uint64_t process_id) const {
  const auto found = link_of_process_.find(process_id);
  if (found == link_of_process_.end()) return true;
  return !found->second->has_wire() && !found->second->is_failed();
}

void Transport::admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token) {
  Link& target = link(process_id);
  link_of_token_[token] = &target;
  target.attach(std::move(wire));
}

void Transport::lose(uint64_t process_id, const Status& status) {
  link(process_id).fail(status);
}

bool Transport::read() {
  bool has_read = false;
  work_.readable.visit([&](size_t index) {
    Link& link = *links_[index];
    if (link.is_readable()) has_read |= link.read();
    if (!link.is_readable()) work_.readable.erase(index);
  });
  return has_read;
}

bool Transport::write(bool is_idle) {
  bool has_written = false;
  work_.output.visit([&](size_t index) {
    Link& link = *links_[index];
    if (link.has_output()) has_written |= link.write(is_idle);
    if (!link.has_output() && !link.has_due_output()) work_.output.erase(index);
  });
  return has_written;
}

bool Transport::has_due_output() const {
  for (size_t index = work_.output.find_next(0); index != IndexSet::kNone;
       index = work_.output.find_next(index + 1))
    if (links_[index]->has_due_output()) return true;
  return false;
}

TimeNs Transport::expire(TimeNs now, bool is_awaited) {
  TimeNs next = gate_.expire(now);
  if (is_awaited) check_peers_until_ = deadline_after(now, kCheckLongerNs);
  if (now >= check_peers_until_ || links_.empty()) return next;
  if (now >= check_peers_at_) {
    check_peers_at_ = deadline_after(now, kCheckIntervalNs);
    gate_.check_peers(now);
    for (const std::unique_ptr<Link>& link : links_)
      if (!link->check_peer(now)) next = now;  // what it says is to be read
  }
  return std::min(next, check_peers_at_);
}

}  // namespace mccl
