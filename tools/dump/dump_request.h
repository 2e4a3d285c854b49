// Asks a process of this machine for its dump.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "mccl/status.h"

namespace mccl {

struct DumpRequest {
  int64_t pid = 0;
  std::string directory = {};  // empty: as the environment that the process was started with says
  TimeNs timeout_ns = 5 * kNsPerSecond;
};

struct DumpAnswer {
  std::string path;
  std::string text;
};

// Sends SIGUSR1 and waits for the new file. InvalidArgument: there is no such process, it is not
// ours, or it would not answer; then nothing was sent. Timeout: no file came. Blocks.
Result<DumpAnswer> request_dump(const DumpRequest& request, const Clock& clock);

}  // namespace mccl
