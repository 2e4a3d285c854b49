// The hand-off with real threads and real sockets, and no framework: each rank has a device thread
// that runs plain C++ kernels, so that a thread sanitizer sees every access to a bucket.
#pragma once

#include <cstdint>
#include <string>

#include "sim/device.h"

namespace mccl {

struct ThreadsRun {
  sim::HandOffFault fault = sim::HandOffFault::None;
  int rank_count = 2;
  int bucket_count = 16;
  int64_t bucket_elements = 4'096;
  TimeNs kernel_ns = 200'000;
};

struct ThreadsOutcome {
  uint64_t wrong_elements = 0;
  uint64_t violations = 0;
  uint64_t drains = 0;        // before the results were looked at
  uint64_t device_waits = 0;  // of all ranks
};

ThreadsOutcome run_threads(const ThreadsRun& run);

}  // namespace mccl
