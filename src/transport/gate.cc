// Connections that are being made. What each one may do next is decided here and nowhere else:
//
//   ours           Attempt: greeted, answered, then our proof; waits with it for a stranger of the
//                  smaller id that is answered
//   of a stranger  AwaitHello -> answered -> proven; waits while there is an attempt of ours and
//                  our id is the smaller one
//
// Whichever connection to a peer is proven first becomes its link's wire, and all others to it end.
// A failure of ours counts only when nothing of the peer's is under way that could take its place.
//
// A process that is stopped is not an error, so time alone ends only a greeting that has begun and
// goes no further: whoever is silent, or was answered and does not go on, may be a stopped process,
// and goes after five seconds when others wait for the room, or when it says that it is a process
// that has answered us on another connection.
// Tested by test/unit/transport/gate_test.cc and gate_seeds_test.cc.
#include "transport/gate.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mccl {
namespace {

// Strangers that are looked at in the same moment; the rest waits in accept().
constexpr size_t kStrangersMax = 64;
constexpr TimeNs kHandshakeTimeoutNs = 5 * kNsPerSecond;

using State = AcceptorHandshake::State;

bool is_answered(const AcceptorHandshake& handshake) {
  return handshake.state() == State::SendAnswer || handshake.state() == State::AwaitProof;
}

}  // namespace

Gate::Gate(WireContext& wires, Identity identity, GateOwner& owner, Refusals::Notice notice)
    : wires_(wires),
      identity_(std::move(identity)),
      owner_(owner),
      own_key_(authenticator_.make_key(identity_.secret, identity_.token)),
      refusals_(std::move(notice)) {}

// Closed here and wherever one is given up, not left to the destructors of wires: these wait until
// the peer has what was written, and strangers do not deserve it.
Gate::~Gate() {
  for (auto& [process_id, attempt] : attempts_) attempt.wire->close();
  for (auto& [token, stranger] : strangers_) stranger.wire->close();
}

Status Gate::connect(const PeerAddress& peer) {
  MCCL_CHECK(identity_.process_id != peer.process_id);
  if (attempts_.contains(peer.process_id)) return Status::ok();
  const uint64_t token = next_token_++;
  Result<std::unique_ptr<Wire>> wire = wires_.connect(peer.address, token);
  if (!wire.is_ok()) return wire.status();
  const Hello hello{
      .from = identity_.process_id, .to = peer.process_id, .nonce = identity_.nonces()};
  const Mac key = authenticator_.make_key(identity_.secret, peer.token);
  attempts_.emplace(
      peer.process_id,
      Attempt{std::move(wire).value(), token,
              ConnectorHandshake(authenticator_, hello, key, "what listens at " + peer.address)});
  process_of_token_[token] = peer.process_id;
  return Status::ok();
}

// Hundreds of ranks connect in the same moment: those above the limit wait their turn in accept().
void Gate::accept(TimeNs now) {
  while (may_accept_ && (has_room() || dismiss_overdue(now))) {
    const uint64_t token = next_token_++;
    std::unique_ptr<Wire> wire = wires_.accept(token);
    if (wire == nullptr) {
      may_accept_ = false;
      return;
    }
    strangers_.emplace(
        token,
        Stranger{std::move(wire), AcceptorHandshake(authenticator_, identity_.process_id, own_key_),
                 deadline_after(now, kHandshakeTimeoutNs)});
    advance_stranger(token);
  }
}

void Gate::handle(uint64_t token) {
  const auto process = process_of_token_.find(token);
  if (process != process_of_token_.end())
    advance_attempt(process->second);
  else
    advance_stranger(token);
}

TimeNs Gate::expire(TimeNs now) {
  const auto must_go_on = [this](const Stranger& stranger) {
    return stranger.handshake.is_half_read() || holds_back_attempt(stranger);
  };
  std::vector<uint64_t> overdue;
  for (const auto& [token, stranger] : strangers_)
    if (must_go_on(stranger) && is_overdue(stranger, now)) overdue.push_back(token);
  for (const uint64_t token : overdue) {
    advance_stranger(token);  // this process may have been stopped: what has arrived counts
    const auto stranger = strangers_.find(token);
    if (stranger == strangers_.end() || !must_go_on(stranger->second)) continue;
    stranger->second.handshake.refuse(
        Refusal::TimedOut, stranger->second.handshake.is_half_read()
                               ? "it did not complete its greeting within 5 seconds"
                               : "it did not prove within 5 seconds that it is the process that "
                                 "this one connects to");
    dismiss(token);
  }
  accept(now);
  TimeNs next = kNever;
  for (const auto& [token, stranger] : strangers_)
    if (must_go_on(stranger) || (may_accept_ && !is_parked(stranger)))
      next = std::min(next, stranger.deadline);
  return next;
}

// Makes room for one of those that wait in accept(), if somebody's time is over.
bool Gate::dismiss_overdue(TimeNs now) {
  const auto found = std::find_if(strangers_.begin(), strangers_.end(),
                                  [&](const auto& item) { return is_overdue(item.second, now); });
  if (found == strangers_.end()) return false;
  const uint64_t token = found->first;
  found->second.handshake.refuse(Refusal::TimedOut,
                                 "it did not prove itself within 5 seconds, and others waited");
  dismiss(token);
  return true;
}

void Gate::check_peers(TimeNs now) {
  std::vector<std::pair<uint64_t, Status>> lost;
  for (auto& [process_id, attempt] : attempts_) {
    const Status status = attempt.wire->check_peer(now);
    if (!status.is_ok()) lost.emplace_back(process_id, status);
  }
  for (const auto& [process_id, status] : lost) end_attempt(process_id, status);
  std::vector<uint64_t> lost_strangers;
  for (auto& [token, stranger] : strangers_)
    if (!stranger.wire->check_peer(now).is_ok()) lost_strangers.push_back(token);
  for (const uint64_t token : lost_strangers) {
    const auto stranger = strangers_.find(token);
    if (stranger == strangers_.end()) continue;  // went with one before it
    stranger->second.handshake.refuse(Refusal::ClosedEarly, "its host does not answer any more");
    dismiss(token);
  }
}

void Gate::advance_attempt(uint64_t process_id) {
  Attempt& attempt = attempts_.at(process_id);
  Status status = attempt.handshake.advance(*attempt.wire);
  if (status.is_ok() && attempt.handshake.is_answered()) {
    const std::vector<uint64_t> rivals = find_strangers(process_id);
    const bool is_second = process_id < identity_.process_id &&
                           std::any_of(rivals.begin(), rivals.end(), [&](uint64_t token) {
                             return is_answered(strangers_.at(token).handshake);
                           });
    if (is_second) return;
    attempt.handshake.confirm();
    status = attempt.handshake.advance(*attempt.wire);
  }
  if (!status.is_ok()) return end_attempt(process_id, status);
  if (!attempt.handshake.is_complete()) return;
  const uint64_t token = attempt.token;
  admit(process_id, std::move(attempt.wire), token);
}

void Gate::end_attempt(uint64_t process_id, const Status& status) {
  const auto attempt = attempts_.find(process_id);
  process_of_token_.erase(attempt->second.token);
  attempt->second.wire->close();
  attempts_.erase(attempt);
  const std::vector<uint64_t> rivals = find_strangers(process_id);
  if (rivals.empty()) return owner_.lose(process_id, status);
  failures_[process_id] = status;
  // They were parked if our id is the smaller one.
  for (const uint64_t token : rivals) advance_stranger(token);
}

void Gate::advance_stranger(uint64_t token) {
  const auto found = strangers_.find(token);
  if (found == strangers_.end() || is_parked(found->second)) return;
  Stranger& stranger = found->second;
  AcceptorHandshake& handshake = stranger.handshake;
  if (handshake.advance(*stranger.wire) == State::Greeted) greet(stranger);
  if (handshake.state() == State::Refused) return dismiss(token);
  if (handshake.state() != State::Complete) return;
  const uint64_t process_id = handshake.peer_process();
  std::unique_ptr<Wire> wire = std::move(stranger.wire);
  strangers_.erase(found);
  admit(process_id, std::move(wire), token);
}

void Gate::greet(Stranger& stranger) {
  AcceptorHandshake& handshake = stranger.handshake;
  const uint64_t process_id = handshake.peer_process();
  if (!owner_.wants(process_id)) {
    handshake.refuse(Refusal::Duplicate, "the process that it says it is has a connection");
  } else if (!is_parked(stranger)) {
    handshake.answer(identity_.nonces());
    handshake.advance(*stranger.wire);
  } else if (find_strangers(process_id).size() > 1) {
    // Parked ones take no room, so there is one at most.
    handshake.refuse(Refusal::Duplicate, "another one waits that says it is the same process");
  }
}

void Gate::dismiss(uint64_t token) {
  const auto stranger = strangers_.find(token);
  const AcceptorHandshake& handshake = stranger->second.handshake;
  const uint64_t process_id = handshake.peer_process();
  refusals_.note(handshake.refusal(), handshake.has_bytes(), stranger->second.wire->peer_host(),
                 handshake.reason());
  stranger->second.wire->close();
  strangers_.erase(stranger);
  if (attempts_.contains(process_id)) return advance_attempt(process_id);  // it may have waited
  const auto failure = failures_.find(process_id);
  if (failure == failures_.end() || !find_strangers(process_id).empty()) return;
  const Status status = std::move(failure->second);
  failures_.erase(failure);
  if (owner_.wants(process_id)) owner_.lose(process_id, status);
}

void Gate::admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token) {
  const auto attempt = attempts_.find(process_id);
  if (attempt != attempts_.end()) {
    // No wire: it is the one that was completed.
    if (attempt->second.wire != nullptr) attempt->second.wire->close();
    process_of_token_.erase(attempt->second.token);
    attempts_.erase(attempt);
  }
  failures_.erase(process_id);
  for (const uint64_t rival : find_strangers(process_id)) {
    strangers_.at(rival).wire->close();
    strangers_.erase(rival);
  }
  if (!owner_.wants(process_id)) return wire->close();
  owner_.admit(process_id, std::move(wire), token);
}

bool Gate::is_parked(const Stranger& stranger) const {
  const AcceptorHandshake& handshake = stranger.handshake;
  return (handshake.state() == State::Greeted || is_answered(handshake)) &&
         identity_.process_id < handshake.peer_process() &&
         attempts_.contains(handshake.peer_process());
}

// The peer has answered ours: it has no connection of its own under way, unless that is this one.
bool Gate::holds_back_attempt(const Stranger& stranger) const {
  const uint64_t process_id = stranger.handshake.peer_process();
  const auto attempt = attempts_.find(process_id);
  return is_answered(stranger.handshake) && process_id < identity_.process_id &&
         attempt != attempts_.end() && attempt->second.handshake.is_answered();
}

bool Gate::is_overdue(const Stranger& stranger, TimeNs now) const {
  return stranger.deadline <= now && !is_parked(stranger);
}

bool Gate::has_room() const {
  const auto is_counted = [&](const auto& item) { return !is_parked(item.second); };
  return static_cast<size_t>(std::count_if(strangers_.begin(), strangers_.end(), is_counted)) <
         kStrangersMax;
}

std::vector<uint64_t> Gate::find_strangers(uint64_t process_id) const {
  std::vector<uint64_t> found;
  for (const auto& [token, stranger] : strangers_) {
    const State state = stranger.handshake.state();
    if (state != State::AwaitHello && state != State::Refused &&
        stranger.handshake.peer_process() == process_id)
      found.push_back(token);
  }
  return found;
}

}  // namespace mccl
