// Which rank this process is, as the launcher that started it says: torchrun, mpirun or another
// one that speaks PMI. Pure.
#pragma once

#include <optional>
#include <string>

#include "base/config.h"
#include "mccl/status.h"

namespace mccl {

struct LaunchPlace {
  std::string launcher;  // "torchrun", "mpirun", "PMI"
  int rank = 0;
  int rank_count = 1;
  std::string host = {};  // where rank 0 serves the rendezvous
  int port = 0;
  bool operator==(const LaunchPlace&) const = default;
};

// Nothing when no launcher's variables are there. InvalidArgument names the variable that is
// missing or wrong. Of torchrun, whose agent listens at MASTER_PORT itself, the port after it.
// Without MASTER_ADDR, ranks that mpirun started on one machine meet on loopback.
Result<std::optional<LaunchPlace>> find_launch_place(EnvironmentView environment);

}  // namespace mccl
