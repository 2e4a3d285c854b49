// The gate of an endpoint: connections that are being made, ours and those of others, until both
// sides have proven themselves. A link gets its wire from here.
//
// Both processes may connect to each other at once. Then the connection that the smaller process id
// began goes first, and the other one is parked: the smaller side neither answers it nor takes its
// proof while its own attempt lasts, and the larger side sends no proof while one of the smaller
// side's is answered. A connection needs both sides to complete, so two processes agree on one
// without a further word; when the first one fails the other one goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "mccl/wire.h"
#include "transport/handshake.h"
#include "transport/refusals.h"

namespace mccl {

// What the store tells about a process.
struct PeerAddress {
  uint64_t process_id = 0;
  uint64_t token = 0;
  std::string address;  // for WireContext::connect
};

// How an endpoint appears to its peers.
struct Identity {
  uint64_t process_id = 0;  // a random number
  uint64_t token = 0;       // another one, which only the store tells
  std::string secret = {};  // MCCL_SECRET; empty: none
  NonceSource nonces = random_nonces();
};

// Who owns the links. Calls come from within Gate's own functions.
class GateOwner {
 public:
  // Whether a connection to this process is of use: it has none yet and has not failed.
  virtual bool wants(uint64_t process_id) const = 0;
  // Both sides have proven themselves; the wire's events come with `token`.
  virtual void admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token) = 0;
  // We connected, and that failed for good.
  virtual void lose(uint64_t process_id, const Status& status) = 0;

 protected:
  ~GateOwner() = default;
};

class Gate {
 public:
  // `wires` and `owner` outlive the gate. `notice` (may be null) hears of strangers.
  Gate(WireContext& wires, Identity identity, GateOwner& owner, Refusals::Notice notice);
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  // Starts a connection unless one is being made. An error is the address's or this host's.
  Status connect(const PeerAddress& peer);
  // Whether a connection that we began is being made.
  bool is_connecting_to(uint64_t process_id) const { return attempts_.contains(process_id); }

  // Connections may wait in accept().
  void set_acceptable() { may_accept_ = true; }
  void accept(TimeNs now);
  // Something happened on a wire; nothing when it is none of the gate's.
  void handle(uint64_t token);
  // Turns away who took too long; the next deadline.
  TimeNs expire(TimeNs now);
  // Ends connections with hosts that do not answer; see Wire::check_peer.
  void check_peers(TimeNs now);

  const Refusals& refusals() const { return refusals_; }

 private:
  // A connection that we began.
  struct Attempt {
    std::unique_ptr<Wire> wire;
    uint64_t token;
    ConnectorHandshake handshake;
  };
  // A connection that another one began.
  struct Stranger {
    std::unique_ptr<Wire> wire;
    AcceptorHandshake handshake;
    TimeNs deadline = 0;
  };
  using Strangers = std::map<uint64_t, Stranger>;  // by token, that is in order of arrival

  void advance_attempt(uint64_t process_id);
  void end_attempt(uint64_t process_id, const Status& status);
  void advance_stranger(uint64_t token);
  void greet(Stranger& stranger);
  void dismiss(uint64_t token);
  bool dismiss_overdue(TimeNs now);
  void admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token);

  // Its connection waits for an attempt of ours.
  bool is_parked(const Stranger& stranger) const;
  // An attempt of ours, which is answered, waits for it.
  bool holds_back_attempt(const Stranger& stranger) const;
  bool is_overdue(const Stranger& stranger, TimeNs now) const;
  bool has_room() const;
  // Tokens of strangers that are greeted, or further, as this process.
  std::vector<uint64_t> find_strangers(uint64_t process_id) const;

  WireContext& wires_;
  Identity identity_;
  GateOwner& owner_;
  Authenticator authenticator_;
  Mac own_key_;  // of connections to us
  // A token is given once and never again: a late event of a closed connection finds nothing.
  uint64_t next_token_ = 1;
  bool may_accept_ = false;
  std::map<uint64_t, Attempt> attempts_;                     // by process id
  std::unordered_map<uint64_t, uint64_t> process_of_token_;  // of attempts
  Strangers strangers_;
  Refusals refusals_;
  // Attempts of ours that have failed, by process id, while the peer may still complete its own.
  std::map<uint64_t, Status> failures_;
};

}  // namespace mccl
