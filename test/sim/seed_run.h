// One seed of the simulator tests: a random world, random calls, what they must leave in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/program_prover.h"

namespace mccl {

struct SeedOutcome {
  std::string failure;  // empty when everything is exact and nothing is stuck
  uint64_t digest = 0;  // of all completion times and all bytes
};

// Draws from `seed`: 2 to 8 ranks, latency, bandwidth, jitter, how segments are cut (down to one
// byte at a time), late reads, slices, algorithms, one or two communicators, and operations that
// are posted in the same order but at different times by each rank, on memory that may overlap
// between operations. Runs until everything is done or nothing can happen any more. Deterministic.
SeedOutcome run_seed(uint64_t seed, const std::shared_ptr<ProgramProver>& prover);

}  // namespace mccl
