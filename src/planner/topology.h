// Who lives where: what the planner knows about the machines. A value; agreed at bootstrap.
#pragma once

#include <vector>

#include "mccl/status.h"

namespace mccl {

struct Topology {
  int rank_count = 1;
  int host_count = 1;
  std::vector<int> host_of_rank = {0};  // one entry per rank, each in [0, host_count)
  // One entry per rank, numbered in the order in which ranks name them; empty: one for all.
  std::vector<int> switch_of_rank = {};
  bool operator==(const Topology&) const = default;
};

// `rank_count` ranks dealt to the hosts in blocks as equal as possible.
Topology make_topology(int rank_count, int host_count);

// Whether all switches are those of `switch_of_rank`: numbered from 0 in the order of appearance.
bool are_switches_in_order(const std::vector<int>& switch_of_rank);

// InvalidArgument names the first inconsistent field.
Status check_topology(const Topology& topology);

}  // namespace mccl
