// Where ranks find each other: a small key-value store that all of them reach. Used at start-up
// only; no collective touches it (law L10).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "mccl/status.h"

namespace mccl {

// What ends a call whose answer does not come: the server may be stopped, its host gone.
struct StoreBound {
  // How long the answer may take beyond the time that a get() gives.
  int64_t answer_ns = 30'000'000'000;
  // Asked about ten times a second while the call waits; once true, the call ends with Aborted. May
  // be empty.
  std::function<bool()> interrupted = {};
};

// Implementers guarantee: what one rank has set, every rank gets; a key is set once. Calls may come
// from any thread, and several stores may name the same keys of one server.
class Store {
 public:
  virtual ~Store() = default;

  // Publishes a value. Network when the server is gone.
  virtual Status set(const std::string& key, const std::string& value) = 0;

  // The value, or nothing when it has not been set within `timeout_ns`; 0 looks once. Blocks at
  // most so long. Network when the server is gone.
  virtual Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) = 0;

  // The same within `bound`, which the call only borrows. A store whose calls have a bound of their
  // own need not know of it.
  virtual Status set_within(const StoreBound& /*bound*/, const std::string& key,
                            const std::string& value) {
    return set(key, value);
  }
  virtual Result<std::optional<std::string>> get_within(const StoreBound& /*bound*/,
                                                        const std::string& key,
                                                        int64_t timeout_ns) {
    return get(key, timeout_ns);
  }
};

// For ranks that are threads of one process: one map, shared by every copy of the pointer.
std::shared_ptr<Store> make_memory_store();

}  // namespace mccl
