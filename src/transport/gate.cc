// Connections that are being made. What each one may do next is decided here and nowhere else:
//
//   ours           Attempt: until it has failed or both sides have proven themselves
//   of a stranger  AwaitHello -> answered -> proven; or parked in between, see gate.h
//
// Whichever connection to a peer is proven first becomes its link's wire, and all others to it end.
// A failure of ours counts only when nothing of the peer's is under way that could take its place.
// Tested by test/unit/transport/gate_test.cc.
#include "transport/gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace mccl {
namespace {

// Strangers that are looked at in the same moment; the rest waits in accept().
constexpr size_t kStrangersMax = 64;
constexpr TimeNs kHandshakeTimeoutNs = 5 * kNsPerSecond;

}  // namespace

Gate::Gate(WireContext& wires, Identity identity, GateOwner& owner)
    : wires_(wires),
      identity_(std::move(identity)),
      owner_(owner),
      own_key_(authenticator_.make_key(identity_.secret, identity_.token)) {}

// Closed here and wherever one is given up, not left to the destructors of wires: these wait until
// the peer has what was written, and strangers do not deserve it.
Gate::~Gate() {
  for (auto& [process_id, attempt] : attempts_) attempt.wire->close();
  for (auto& [token, stranger] : strangers_) stranger.wire->close();
}

Status Gate::connect(const PeerAddress& peer) {
  MCCL_CHECK(identity_.process_id != peer.process_id);
  if (attempts_.contains(peer.process_id)) return Status::ok();
  if (find_stranger(peer.process_id, false) != strangers_.end()) {
    // Two that could complete would be one too many; if that one does not, we connect.
    fallbacks_[peer.process_id] = {.peer = peer, .failure = Status::ok()};
    return Status::ok();
  }
  const uint64_t token = next_token_++;
  Result<std::unique_ptr<Wire>> wire = wires_.connect(peer.address, token);
  if (!wire.is_ok()) return wire.status();
  const Hello hello{
      .from = identity_.process_id, .to = peer.process_id, .nonce = identity_.nonces()};
  const Mac key = authenticator_.make_key(identity_.secret, peer.token);
  attempts_.emplace(peer.process_id, Attempt{std::move(wire).value(), token,
                                             ConnectorHandshake(authenticator_, hello, key,
                                                                "what listens at " + peer.address),
                                             peer, now_});
  process_of_token_[token] = peer.process_id;
  return Status::ok();
}

// Hundreds of ranks connect in the same moment: those above the limit wait their turn in accept().
void Gate::accept(TimeNs now) {
  now_ = now;
  const auto is_counted = [](const auto& item) { return !item.second.is_parked(); };
  while (may_accept_ && static_cast<size_t>(std::count_if(strangers_.begin(), strangers_.end(),
                                                          is_counted)) < kStrangersMax) {
    const uint64_t token = next_token_++;
    std::unique_ptr<Wire> wire = wires_.accept(token);
    if (wire == nullptr) {
      may_accept_ = false;
      return;
    }
    const auto [stranger, is_new] = strangers_.emplace(
        token,
        Stranger{std::move(wire), AcceptorHandshake(authenticator_, identity_.process_id, own_key_),
                 deadline_after(now, kHandshakeTimeoutNs)});
    MCCL_CHECK(is_new);
    advance(stranger);
  }
}

bool Gate::handle(uint64_t token, TimeNs now) {
  now_ = now;
  const auto process = process_of_token_.find(token);
  if (process != process_of_token_.end()) {
    advance(attempts_.at(process->second), process->second, now);
    return true;
  }
  const auto stranger = strangers_.find(token);
  if (stranger == strangers_.end()) return false;
  advance(stranger);
  return true;
}

TimeNs Gate::expire(TimeNs now) {
  std::vector<uint64_t> overdue;
  for (const auto& [token, stranger] : strangers_)
    if (!stranger.is_parked() && stranger.deadline <= now) overdue.push_back(token);
  for (const uint64_t token : overdue) {
    const auto stranger = strangers_.find(token);
    if (stranger == strangers_.end()) continue;  // went with one before it
    // This process may have been stopped meanwhile: what has arrived counts.
    advance(stranger);
    if (strangers_.find(token) == strangers_.end()) continue;
    stranger->second.handshake.refuse(Refusal::TimedOut,
                                      "it did not complete its greeting within 5 seconds");
    dismiss(stranger);
  }
  accept(now);
  TimeNs next = kNever;
  for (const auto& [token, stranger] : strangers_)
    if (!stranger.is_parked()) next = std::min(next, stranger.deadline);
  return next;
}

void Gate::advance(Attempt& attempt, uint64_t process_id, TimeNs now) {
  const Status status = attempt.handshake.advance(*attempt.wire);
  if (!status.is_ok()) return end_attempt(process_id, status, now);
  if (!attempt.handshake.is_complete()) return;
  const uint64_t token = attempt.token;
  admit(process_id, std::move(attempt.wire), token);
}

void Gate::end_attempt(uint64_t process_id, const Status& status, TimeNs now) {
  const auto attempt = attempts_.find(process_id);
  const PeerAddress peer = attempt->second.peer;
  const bool was_stopped = now - attempt->second.begun_at >= kHandshakeTimeoutNs;
  process_of_token_.erase(attempt->second.token);
  attempt->second.wire->close();
  attempts_.erase(attempt);
  // A process that was stopped in the middle of a greeting finds that the other one has given up.
  if (was_stopped && status.code() == StatusCode::PeerLost && connect(peer).is_ok()) return;
  fallbacks_[process_id] = {.peer = {}, .failure = status};
  const auto parked = find_stranger(process_id, true);
  if (parked == strangers_.end()) return fall_back(process_id);
  parked->second.deadline = deadline_after(now, kHandshakeTimeoutNs);
  parked->second.handshake.answer(identity_.nonces());
  advance(parked);
}

void Gate::advance(Strangers::iterator stranger) {
  AcceptorHandshake& handshake = stranger->second.handshake;
  if (stranger->second.is_parked()) return;
  if (handshake.advance(*stranger->second.wire) == AcceptorHandshake::State::Greeted)
    greet(stranger->second);
  if (handshake.state() == AcceptorHandshake::State::Refused) return dismiss(stranger);
  if (handshake.state() != AcceptorHandshake::State::Complete) return;
  const uint64_t token = stranger->first;
  const uint64_t process_id = handshake.peer_process();
  std::unique_ptr<Wire> wire = std::move(stranger->second.wire);
  strangers_.erase(stranger);
  admit(process_id, std::move(wire), token);
}

void Gate::greet(Stranger& stranger) {
  AcceptorHandshake& handshake = stranger.handshake;
  const uint64_t process_id = handshake.peer_process();
  const bool is_ours_first = attempts_.contains(process_id) && identity_.process_id < process_id;
  const auto is_rival = [&](const auto& item) {
    return &item.second != &stranger && item.second.is_parked() &&
           item.second.handshake.peer_process() == process_id;
  };
  if (!owner_.wants(process_id) ||
      (is_ours_first && std::any_of(strangers_.begin(), strangers_.end(), is_rival))) {
    handshake.refuse(Refusal::Duplicate, "the process that it says it is has a connection");
  } else if (!is_ours_first) {
    handshake.answer(identity_.nonces());
    handshake.advance(*stranger.wire);
  }
}

void Gate::dismiss(Strangers::iterator stranger) {
  const uint64_t process_id = stranger->second.handshake.peer_process();
  stranger->second.wire->close();
  strangers_.erase(stranger);
  fall_back(process_id);
}

// The last connection of a peer that could take the place of ours is gone.
void Gate::fall_back(uint64_t process_id) {
  const auto found = fallbacks_.find(process_id);
  if (found == fallbacks_.end() || attempts_.contains(process_id) ||
      find_stranger(process_id, false) != strangers_.end())
    return;
  const Fallback fallback = std::move(found->second);
  fallbacks_.erase(found);
  if (!owner_.wants(process_id)) return;
  const Status status = fallback.failure.is_ok() ? connect(fallback.peer) : fallback.failure;
  if (!status.is_ok()) owner_.lose(process_id, status);
}

void Gate::admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token) {
  const auto attempt = attempts_.find(process_id);
  if (attempt != attempts_.end()) {
    // No wire: it is the one that was completed.
    if (attempt->second.wire != nullptr) attempt->second.wire->close();
    process_of_token_.erase(attempt->second.token);
    attempts_.erase(attempt);
  }
  fallbacks_.erase(process_id);
  std::erase_if(strangers_, [&](const auto& item) {
    if (item.second.handshake.peer_process() != process_id) return false;
    item.second.wire->close();
    return true;
  });
  if (!owner_.wants(process_id)) return wire->close();
  owner_.admit(process_id, std::move(wire), token);
}

Gate::Strangers::iterator Gate::find_stranger(uint64_t process_id, bool is_parked) {
  return std::find_if(strangers_.begin(), strangers_.end(), [&](const auto& item) {
    return item.second.handshake.peer_process() == process_id &&
           item.second.is_parked() == is_parked;
  });
}

}  // namespace mccl
