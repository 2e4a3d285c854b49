// From a table entry to the numbers of one call: how a chunk is cut into iterations, instances and
// slices (law L1). Integers only; every rank gets the same from the same call.
#pragma once

#include <cstdint>

#include "mccl/program.h"
#include "mccl/status.h"
#include "planner/plan_table.h"

namespace mccl {

// What a lowered program asks of the streams, the same on every rank.
struct ProgramShape {
  int chunk_count = 1;          // chunks per block
  int recv_stream_count = 0;    // of the rank with the most; per instance
  int message_chunk_count = 1;  // chunks in the largest message
  // Every lane moves input to output between two ranks, or on its own, and waits for no other lane:
  // ranks need not know the lengths of blocks that are not theirs.
  bool is_direct = false;
  bool operator==(const ProgramShape&) const = default;
};

// Walks the whole program; once per program, not per call.
ProgramShape measure_shape(const Program& program);

// A chunk is cut into iteration_count * instance_count slices, the last ones shorter or empty.
struct CallPlan {
  int64_t iteration_count = 1;   // T: slices that one lane takes one after the other
  int64_t instance_count = 1;    // m: disjoint copies of the program, each on its own channels
  int64_t slice_bytes = 0;       // a multiple of 64 and of the element
  bool is_park_limited = false;  // MCCL_PARK_LIMIT made the slices or the window smaller
  bool is_cut_by_lane = false;   // T is what each lane needs for its own blocks
  bool operator==(const CallPlan&) const = default;
};

// The plan of a call whose blocks have at most `block_element_count` elements of `element_bytes`
// (1 to 64, a power of two). Guarantees: T * m * slice >= the largest chunk, m <= 32, slice <= the
// entry's, and what law L2.4 reserves, 2 * streams * m * largest message * C, fits
// `park_limit_bytes`. Unsupported, with the limit that would do, when even one slice of 4 KiB (or
// the whole chunk, if shorter) does not fit.
Result<CallPlan> plan_call(const PlanEntry& entry, const ProgramShape& shape,
                           int64_t block_element_count, int64_t element_bytes,
                           int64_t park_limit_bytes);

// The plan of a call of a direct program whose blocks have lengths of their own: the slice depends
// on nothing but the entry, so that the two ends of every stream cut alike.
Result<CallPlan> plan_direct_call(const PlanEntry& entry, const ProgramShape& shape,
                                  int64_t park_limit_bytes);

}  // namespace mccl
