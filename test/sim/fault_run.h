// One seed of the fault tests: a random group at work, and one thing that goes wrong.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/program_prover.h"

namespace mccl {

enum class Fault : uint8_t {
  Death,     // a process ends: its host closes its connections
  Reset,     // the connections between two processes are reset, both live on
  Stall,     // a process is stopped for a while and goes on
  Vanish,    // a host is silent from now on
  LateRank,  // a rank comes to its first call much later than the others
};
constexpr int kFaultCount = 5;

std::string_view fault_name(Fault fault);

// Draws from `seed`: 2 to 16 ranks, a world, calls of every rank (one after the other or several at
// a time), the fault, when, and whom. What must hold: a fault that loses a rank or a connection
// reaches every surviving rank, with the same first cause, in the calls in flight or in the next
// one; the others cost time and nothing else; nothing is stuck, wrong or left in memory. Returns
// what does not hold.
std::string run_fault_seed(uint64_t seed, const std::shared_ptr<ProgramProver>& prover);

}  // namespace mccl
