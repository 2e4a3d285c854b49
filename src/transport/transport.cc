#include "transport/transport.h"

#include <utility>

#include "base/check.h"

namespace mccl {

Transport::Transport(WireContext& wires, Identity identity, LinkListener& listener)
    : process_id_(identity.process_id),
      listener_(listener),
      gate_(wires, std::move(identity), *this) {}

Transport::~Transport() = default;

Link& Transport::link(uint64_t process_id) {
  Link*& link = link_of_process_[process_id];
  if (link == nullptr) {
    links_.push_back(std::make_unique<Link>(process_id, listener_, pool_));
    link = links_.back().get();
  }
  return *link;
}

Status Transport::connect(const PeerAddress& peer, Initiative initiative) {
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
      gate_.handle(event.token, now);
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
  for (size_t index = 0; index < links_.size(); ++index)
    if (links_[index]->is_readable()) has_read |= links_[index]->read();
  return has_read;
}

bool Transport::write(bool is_idle) {
  bool has_written = false;
  for (size_t index = 0; index < links_.size(); ++index)
    if (links_[index]->has_output()) has_written |= links_[index]->write(is_idle);
  return has_written;
}

bool Transport::has_due_output() const {
  for (const std::unique_ptr<Link>& link : links_)
    if (link->has_due_output()) return true;
  return false;
}

TimeNs Transport::expire(TimeNs now) {
  return gate_.expire(now);
}

}  // namespace mccl
