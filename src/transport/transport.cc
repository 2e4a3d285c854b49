#include "transport/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mccl {
namespace {

constexpr size_t kStrangersMax = 64;
constexpr TimeNs kHelloTimeoutNs = 5 * kNsPerSecond;

}  // namespace

Transport::Transport(WireContext& wires, uint64_t process_id, uint64_t token,
                     LinkListener& listener)
    : wires_(wires), process_id_(process_id), token_(token), listener_(listener) {}

Transport::~Transport() = default;

Link& Transport::link(uint64_t process_id) {
  Link*& link = link_of_process_[process_id];
  if (link == nullptr) {
    links_.push_back(std::make_unique<Link>(process_id, listener_, pool_));
    link = links_.back().get();
  }
  return *link;
}

Status Transport::connect(const PeerAddress& peer) {
  Link& target = link(peer.process_id);
  if (target.has_wire() || target.is_failed() || process_id_ > peer.process_id) return Status::ok();
  MCCL_CHECK(process_id_ != peer.process_id);
  const uint64_t token = next_token_++;
  Result<std::unique_ptr<Wire>> wire = wires_.connect(peer.address, token);
  if (!wire.is_ok()) return wire.status();
  link_of_token_[token] = &target;
  const Hello hello{.from = process_id_, .to = peer.process_id, .token = peer.token};
  target.attach(std::move(wire).value(), hello, true);
  return Status::ok();
}

void Transport::handle(const std::vector<WireEvent>& events, TimeNs now) {
  for (const WireEvent& event : events) {
    if (event.acceptable) {
      may_accept_ = true;
      accept_all(now);
      continue;
    }
    const auto found = link_of_token_.find(event.token);
    if (found != link_of_token_.end()) {
      if (event.readable) found->second->set_readable();
      if (event.writable) found->second->set_writable();
      continue;
    }
    for (size_t index = 0; index < strangers_.size(); ++index) {
      if (strangers_[index]->token != event.token) continue;
      if (greet(*strangers_[index]))
        strangers_.erase(strangers_.begin() + static_cast<long>(index));
      break;
    }
  }
  accept_all(now);
}

// Hundreds of ranks connect in the same moment: those above the limit wait their turn in accept().
void Transport::accept_all(TimeNs now) {
  while (may_accept_ && strangers_.size() < kStrangersMax) {
    const uint64_t token = next_token_++;
    std::unique_ptr<Wire> wire = wires_.accept(token);
    if (wire == nullptr) {
      may_accept_ = false;
      return;
    }
    auto stranger = std::make_unique<Stranger>();
    stranger->wire = std::move(wire);
    stranger->token = token;
    stranger->deadline = now + kHelloTimeoutNs;
    if (!greet(*stranger)) strangers_.push_back(std::move(stranger));
  }
}

bool Transport::greet(Stranger& stranger) {
  while (stranger.bytes < sizeof(Hello)) {
    const iovec piece{stranger.hello + stranger.bytes, sizeof(Hello) - stranger.bytes};
    Result<size_t> got = stranger.wire->read({&piece, 1});
    if (!got.is_ok()) return true;
    if (got.value() == 0) return false;
    stranger.bytes += got.value();
  }
  Hello hello;
  std::memcpy(&hello, stranger.hello, sizeof(hello));
  admit(stranger, hello);
  return true;
}

bool Transport::admit(Stranger& stranger, const Hello& hello) {
  const bool is_valid = hello.magic == kHelloMagic && hello.version == kFrameVersion &&
                        hello.to == process_id_ && hello.token == token_ &&
                        hello.from < process_id_;
  if (!is_valid) return false;
  Link& target = link(hello.from);
  if (target.has_wire() || target.is_failed()) return false;
  link_of_token_[stranger.token] = &target;
  const Hello answer{.from = process_id_, .to = hello.from, .token = 0};
  target.attach(std::move(stranger.wire), answer, false);
  return true;
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
  std::erase_if(strangers_, [&](const std::unique_ptr<Stranger>& stranger) {
    return stranger->deadline <= now;
  });
  accept_all(now);
  TimeNs next = kNever;
  for (const std::unique_ptr<Stranger>& stranger : strangers_)
    next = std::min(next, stranger->deadline);
  return next;
}

}  // namespace mccl
