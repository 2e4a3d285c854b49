// A rendezvous of our own, for programs without torch: a store that one process serves over TCP.
//
// Anyone who reaches the port can read and write the store. It belongs on a network that you trust,
// as the launchers' own stores do. No collective touches it; it may end once all ranks have met.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "mccl/status.h"
#include "mccl/store.h"

namespace mccl {

// The serving half: one thread, idle without CPU use. For a launcher that is no rank itself; a rank
// that serves uses make_tcp_store. Keys have at most 256 bytes, values 16 MiB, all together 1 GiB,
// as may what has arrived of unfinished requests. There are at most 4,096 connections; beyond, the
// one that has been idle for longest is ended (our clients connect again). So is one whose request
// has not arrived, or whose answer was not taken, within 30 s, and one whose host has vanished.
// Destroying it ends every connection.
class StoreServer {
 public:
  // Listens on `host` (numeric or a name that is this machine's) and `port`; 0: any free one.
  // Network when it cannot.
  static Result<std::unique_ptr<StoreServer>> create(const std::string& host, int port);
  virtual ~StoreServer() = default;

  // The port that it listens on. Any thread.
  virtual int port() const = 0;
};

// The store at `host` and `port`. With `is_server` this process serves it (rank 0) as long as the
// store lives; the others connect and try again until `timeout_ns` has passed while nobody serves
// yet. Blocks so long at most, but for the resolution of a server's own name. Timeout when nobody
// served, Network when serving is impossible, Aborted once `interrupted` (asked about ten times a
// second, may be empty) is true, InvalidArgument when the port is not 1 to 65535.
//
// The store's get() lets the server answer in its own time: it may return a round trip after its
// limit, and reports Network when there is no answer 30 s after it, or when its StoreBound says so.
Result<std::shared_ptr<Store>> make_tcp_store(const std::string& host, int port, bool is_server,
                                              int64_t timeout_ns,
                                              const std::function<bool()>& interrupted = {});

}  // namespace mccl
