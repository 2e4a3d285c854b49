// Who lives where: what the planner knows about the machines. A value; agreed at bootstrap.
#pragma once

#include <vector>

#include "mccl/status.h"

namespace mccl {

struct Topology {
  int rank_count = 1;
  int host_count = 1;
  std::vector<int> host_of_rank = {0};  // one entry per rank, each in [0, host_count)
  bool operator==(const Topology&) const = default;
};

// `rank_count` ranks dealt to the hosts in blocks as equal as possible.
Topology make_topology(int rank_count, int host_count);

// InvalidArgument names the first inconsistent field.
Status check_topology(const Topology& topology);

}  // namespace mccl
