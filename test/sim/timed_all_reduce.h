// All-reduces of the simulator's larger tests: timed in virtual time, with sums that are known.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/sim_group.h"

namespace mccl {

using Tensors = std::vector<std::vector<float>>;

// The fleet of the paper, and one algorithm.
SimGroupOptions paper_fleet(const std::string& algorithm);

// Sums a buffer of `bytes` whose elements differ, on all ranks at once; nanoseconds from the calls
// to the last rank's end. A test failure and 0 when a rank failed. `tensors` has an entry per rank.
// With `operation_count` > 1 there are that many such buffers, each summed by a call of its own.
TimeNs time_all_reduce(SimGroup& group, Tensors& tensors, int64_t bytes,
                       size_t operation_count = 1);

// The first element that time_all_reduce() left wrong, in words; empty when there is none.
std::string judge_sums(const Tensors& tensors);

}  // namespace mccl
