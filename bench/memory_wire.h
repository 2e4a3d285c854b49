// Wires in memory for benchmarks of what lies above them: a byte queue per direction, no latency,
// no system calls. One thread drives all contexts of a network.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "mccl/wire.h"

namespace mccl {

class MemoryNetwork {
 public:
  // `queue_bytes` is how much one direction holds before a write would block, as a socket does.
  explicit MemoryNetwork(size_t queue_bytes) : queue_bytes_(queue_bytes) {}

  // The network outlives the context, the context its wires.
  std::unique_ptr<WireContext> make_context();

 private:
  friend class MemoryContext;
  size_t queue_bytes_;
  std::vector<class MemoryContext*> contexts_;  // by the number in their address
};

}  // namespace mccl
