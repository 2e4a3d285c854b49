// What a call is to the rules of programs from files, and how its buffers are made to fit a program
// that claims the other aliasing.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/call.h"
#include "mccl/communicator.h"
#include "mccl/program.h"
#include "planner/program_fit.h"

namespace mccl {

// `seen_rank`: as which rank the program sees this one (the root is 0).
CallFacts facts_of(const Call& call, int seen_rank);

// Gives the call buffers that alias as the program claims, in memory of the call's own where it
// needs any, and `stand_in` (may be null) the copies, around those that it has. Called where
// Fit::copies_input. Returns the bytes that will be copied.
int64_t copy_to_fit(const Program& program, int seen_rank, Call& call,
                    std::shared_ptr<const StandIn>& stand_in);

}  // namespace mccl
