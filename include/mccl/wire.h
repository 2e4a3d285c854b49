// For writers of wires: bytes between two endpoints, in order, without message boundaries. Frames,
// credits, matching and failure wording live once, above this interface, in src/transport.
//
// Implementers guarantee: nothing here blocks but WireContext::poll; one thread at a time calls
// into a context and its wires, with two exceptions: wake() may come from any thread, and while a
// poll() blocks other threads may call poll() too, connect(), and read, write, close or destroy
// wires; each event goes to one of the polls. test/conformance/wire_test.cc checks every
// implementation.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mccl/status.h"

namespace mccl {

// One connection. Owned by whoever got it from connect() or accept(); closes itself when destroyed.
class Wire {
 public:
  virtual ~Wire() = default;

  // Takes a prefix of the concatenated pieces and returns its length in bytes; 0 means "would
  // block", also while the connection is still being made. The bytes have left the caller's memory
  // when this returns. PeerLost or Network once the connection is gone.
  virtual Result<size_t> write(std::span<const iovec> pieces) = 0;

  // Fills a prefix of the concatenated pieces and returns its length in bytes; 0 means "nothing
  // now". PeerLost at end of stream or when the peer reset the connection, Network on any other
  // failure. Bytes that arrived before are read first, also when write() has failed already.
  virtual Result<size_t> read(std::span<const iovec> pieces) = 0;

  // To be asked about once a second, with the caller's clock, while something is awaited: finds the
  // silence that no event reports. PeerLost, from then on, once the peer's host has for the peer
  // timeout left bytes of ours, probes or our wish to connect without an answer; read(), after the
  // bytes that had arrived, and write() say the same. A peer whose process is stopped is not lost:
  // its host answers. Ok in all other cases, also when the wire has failed otherwise. Never blocks.
  // As it is here it suits wires that report all of this by themselves.
  virtual Status check_peer(int64_t /*now_ns*/) { return Status::ok(); }

  // Ends the connection at once; bytes not yet sent may be lost. Idempotent.
  virtual void close() = 0;

  // For messages: "192.168.1.7:40112 -> 192.168.1.9:5123 over tcp".
  virtual std::string describe() const = 0;
  // The other side without what differs between its connections: "192.168.1.9".
  virtual std::string peer_host() const { return describe(); }
};

// Something happened on a wire since the last report. Edge-triggered: after `readable` the caller
// reads until 0, after a write that returned less than asked it waits for `writable`.
struct WireEvent {
  uint64_t token = 0;  // the number given to connect() or accept()
  bool readable = false;
  bool writable = false;
  bool acceptable = false;  // a connection waits in accept(); token is meaningless
};

// All wires of one kind of one endpoint, and the one place where the endpoint may block.
enum class ForkSide { Parent, Child };

class WireContext {
 public:
  virtual ~WireContext() = default;

  // What peers pass to connect(): "tcp://192.168.1.7:40112". Fixed once the context exists.
  virtual std::string address() const = 0;

  // Starts a connection and returns at once; failure shows in the wire's read and write. `token`
  // comes back in events, the first of which says `writable`: the connection is made, or has
  // failed. InvalidArgument for an address of another kind of wire.
  virtual Result<std::unique_ptr<Wire>> connect(const std::string& address, uint64_t token) = 0;

  // One incoming connection, or null when none waits.
  virtual std::unique_ptr<Wire> accept(uint64_t token) = 0;

  // Appends events. Blocks until there is one, wake() was called, or `timeout_ns` has passed; 0
  // never blocks, a negative value waits without limit. A signal that this thread handles ends it,
  // too.
  virtual void poll(int64_t timeout_ns, std::vector<WireEvent>& events) = 0;

  // Ends a poll() that blocks now, or the next one. Any thread; async-signal-safe is not promised.
  virtual void wake() = 0;

  // Around a fork of this process, on the thread that forks; neither blocks long. The child closes
  // its copies of all descriptors, since peers would not see the end of a parent that it outlives.
  // Nothing of the context and of its wires may be used or destroyed there afterwards.
  virtual void begin_fork() {}
  virtual void end_fork(ForkSide /*side*/) {}
};

}  // namespace mccl
