// How two processes show each other, before anything else is read, that they belong together.
//
//   connector -> Hello      who I am, whom I look for, a nonce
//   acceptor  -> Answer     the same about itself, and its proof
//   connector -> ConnectorProof      frames may follow at once
//
// A proof is HMAC-SHA256(key, role | hello | the answer's hello), with another role for each
// direction, so that neither can be played back. key = HMAC-SHA256(secret, "mccl" | acceptor's
// token): the token is random and only the store tells it, the secret (MCCL_SECRET) never travels.
// Without a secret it is empty, and whoever reads the store can connect.
//
// Each side is a state machine over a non-blocking wire that reads exactly the bytes of the
// handshake: what follows them stays in the wire. One thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mccl/status.h"
#include "mccl/wire.h"
#include "transport/frame.h"

namespace mccl {

// Gives a nonce that it never gave before. Called by the thread that drives.
using NonceSource = std::function<Nonce()>;
// From the operating system.
NonceSource random_nonces();
// The same numbers for the same seed: for simulations only.
NonceSource seeded_nonces(uint64_t seed);

// HMAC-SHA256 in a context of its own, which no configuration file of the system changes.
class Authenticator {
 public:
  Authenticator();
  ~Authenticator();
  Authenticator(const Authenticator&) = delete;
  Authenticator& operator=(const Authenticator&) = delete;

  Mac authenticate(std::string_view key, std::string_view text) const;
  // The key of connections to the process with this token.
  Mac make_key(std::string_view secret, uint64_t acceptor_token) const;
  // What each side proves with.
  Mac prove_acceptor(const Mac& key, const Hello& hello, const Hello& answer) const;
  Mac prove_connector(const Mac& key, const Hello& hello, const Hello& answer) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

// Why a connection was turned away.
enum class Refusal : uint8_t {
  RandomBytes,   // it does not speak our protocol
  WrongVersion,  // it speaks another version of it
  WrongId,       // it looks for another process
  BadMac,        // its proof is wrong: another secret, another job, or a replay
  TimedOut,      // it did not complete the handshake in time
  ClosedEarly,   // it closed the connection before it had
  Duplicate,     // the process is connected already: the loser of two connections, or a replay
};
constexpr size_t kRefusalCount = 7;

// The side that connects.
class ConnectorHandshake {
 public:
  // `authenticator` outlives it. `address` is for messages.
  ConnectorHandshake(const Authenticator& authenticator, const Hello& hello, const Mac& key,
                     std::string address);

  // Goes on as far as the wire lets it; never leaves Answered. An error, in words for the user,
  // means that the other side is gone or is not who it should be.
  Status advance(Wire& wire);
  // The other side has proven itself; the owner decides whether to confirm().
  bool is_answered() const { return state_ == State::Answered; }
  // Sends our proof with the next advance(). Requires is_answered().
  void confirm();
  bool is_complete() const { return state_ == State::Complete; }

 private:
  enum class State : uint8_t { SendHello, AwaitAnswer, Answered, SendProof, Complete };

  Status check_answer();
  Status refuse(const std::string& text) const;

  const Authenticator& authenticator_;
  State state_ = State::SendHello;
  Hello hello_;
  Mac key_;
  std::string address_;
  Answer answer_;
  ConnectorProof proof_;
  size_t bytes_ = 0;  // of the message under way that are through
};

// The side that accepts.
class AcceptorHandshake {
 public:
  enum class State : uint8_t {
    AwaitHello,
    Greeted,  // the hello is well formed and for us; the owner decides whether to answer()
    SendAnswer,
    AwaitProof,
    Complete,
    Refused,
  };

  // `authenticator` outlives it. `key` is that of connections to this process.
  AcceptorHandshake(const Authenticator& authenticator, uint64_t process_id, const Mac& key);

  // Goes on as far as the wire lets it and returns the state then; never leaves Greeted.
  State advance(Wire& wire);
  // Requires Greeted.
  void answer(const Nonce& nonce);

  State state() const { return state_; }
  // Who it says it is; a proof of that only when Complete. 0 before it is Greeted.
  uint64_t peer_process() const;
  // Whether a byte has come.
  bool has_bytes() const { return has_bytes_; }
  // It has begun to greet and not finished.
  bool is_half_read() const { return state_ == State::AwaitHello && has_bytes_; }
  // Requires Refused.
  Refusal refusal() const { return refusal_; }
  // Why, in words: "not mccl (first bytes 47 45 54 20)".
  const std::string& reason() const { return reason_; }
  // The owner gives it up.
  State refuse(Refusal refusal, std::string reason);

 private:
  State read_hello(Wire& wire);
  State read_proof(Wire& wire);
  void send_refusal(Wire& wire);

  const Authenticator& authenticator_;
  State state_ = State::AwaitHello;
  uint64_t process_id_;
  Mac key_;
  Hello hello_;
  Answer answer_;
  ConnectorProof proof_;
  size_t bytes_ = 0;  // of the message under way that are through
  bool has_bytes_ = false;
  Refusal refusal_ = Refusal::ClosedEarly;
  std::string reason_;
};

}  // namespace mccl
