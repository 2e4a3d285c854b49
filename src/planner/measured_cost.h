// What a program costs, counted on the program itself: for those that come from files and have no
// closed form.
#pragma once

#include "algorithms/catalog.h"
#include "mccl/program.h"

namespace mccl {

// Equals the closed form of every built-in (a test compares them), but for `phases`, which are left
// empty, and for is_pipelined, which is true of programs that send nothing on but by the step that
// has received it. `program` has passed the verifier's structure, pairing and deadlock phases, or
// the count is of the steps that can run. O(steps).
AlgorithmCost measure_cost(const Program& program);

}  // namespace mccl
