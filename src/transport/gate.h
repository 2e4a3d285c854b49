// The gate of an endpoint: connections that are being made, ours and those of others, until both
// sides have proven themselves. A link gets its wire from here.
//
// Both processes may connect to each other at once. Then the connection that the smaller process id
// began is used: the smaller side leaves the other one unanswered (it is parked) until its own is
// complete, and takes it up when its own cannot be made. The smaller side never has more than one
// connection to a peer that could complete, and every connection needs it to complete; so two
// processes agree on one without a further word.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "mccl/wire.h"
#include "transport/handshake.h"

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
  // `wires` and `owner` outlive the gate.
  Gate(WireContext& wires, Identity identity, GateOwner& owner);
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
  // Something happened on a wire; false when it is none of the gate's.
  bool handle(uint64_t token, TimeNs now);
  // Turns away who took too long; the next deadline.
  TimeNs expire(TimeNs now);

 private:
  // A connection that we began.
  struct Attempt {
    std::unique_ptr<Wire> wire;
    uint64_t token;
    ConnectorHandshake handshake;
    PeerAddress peer;
    TimeNs begun_at;
  };
  // A connection that another one began. It is parked while it is Greeted: without a deadline, but
  // there is at most one for each attempt of ours, and it ends with it.
  struct Stranger {
    std::unique_ptr<Wire> wire;
    AcceptorHandshake handshake;
    TimeNs deadline = 0;
    bool is_parked() const { return handshake.state() == AcceptorHandshake::State::Greeted; }
  };
  using Strangers = std::map<uint64_t, Stranger>;  // by token, that is in order of arrival
  // What follows when no connection of the peer itself completes.
  struct Fallback {
    PeerAddress peer;  // connect to it, if it has an address
    Status failure;    // else this is how ours had failed
  };

  void advance(Attempt& attempt, uint64_t process_id, TimeNs now);
  void end_attempt(uint64_t process_id, const Status& status, TimeNs now);
  void advance(Strangers::iterator stranger);
  void greet(Stranger& stranger);
  void dismiss(Strangers::iterator stranger);
  void fall_back(uint64_t process_id);
  void admit(uint64_t process_id, std::unique_ptr<Wire> wire, uint64_t token);
  Strangers::iterator find_stranger(uint64_t process_id, bool is_parked);

  WireContext& wires_;
  Identity identity_;
  GateOwner& owner_;
  Authenticator authenticator_;
  Mac own_key_;  // of connections to us
  // A token is given once and never again: a late event of a closed connection finds nothing.
  TimeNs now_ = 0;  // as the last call said
  uint64_t next_token_ = 1;
  bool may_accept_ = false;
  std::map<uint64_t, Attempt> attempts_;                     // by process id
  std::unordered_map<uint64_t, uint64_t> process_of_token_;  // of attempts
  Strangers strangers_;
  std::map<uint64_t, Fallback> fallbacks_;  // by process id
};

}  // namespace mccl
