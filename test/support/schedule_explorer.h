// Runs a small program in every order that the engine may choose, and looks at what comes out. It
// shares nothing with the verifier but the program: what both call right is right for two reasons.
#pragma once

#include <cstdint>
#include <string>

#include "ir/proven_program.h"
#include "mccl/program.h"

namespace mccl {

struct Exploration {
  bool is_right = true;
  std::string fault;          // the first wrong end; empty when right
  int64_t state_count = 0;    // different states that were seen
  bool is_exhaustive = true;  // false: the limit was met, and random schedules were tried instead
};

// Two iterations with two messages outstanding per stream. A message sent by reference is read at
// any time before it is taken, except as the capture waits of `proof` say. Orders of steps that
// touch nothing in common count once. When there are more than `state_limit` states, `sample_count`
// random schedules stand for the rest. The program must have passed the verifier's structure phase.
Exploration explore_schedules(const Program& program, const Proof& proof, bool in_place,
                              int64_t state_limit, int sample_count);

}  // namespace mccl
