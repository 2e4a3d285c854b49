// What StoreServer::create() makes, with a clock and limits of the caller's choice.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/clock.h"
#include "mccl/rendezvous.h"
#include "mccl/status.h"

namespace mccl {

struct StoreServerLimits {
  size_t connections_max = 4096;
  // Keys and values that are held, and likewise what has arrived of unfinished requests.
  size_t stored_bytes_max = size_t{1} << 30;
  // From a request's first byte to its last, and for an answer to be taken: as long as our clients
  // wait for an answer.
  TimeNs request_ns = 30 * kNsPerSecond;
};

// `clock` outlives the server, whose thread reads it. A deadline is looked at when the system's
// clock says so and after every event of a socket. Errors: those of StoreServer::create().
Result<std::unique_ptr<StoreServer>> make_store_server(const std::string& host, int port,
                                                       const Clock& clock,
                                                       const StoreServerLimits& limits);

}  // namespace mccl
