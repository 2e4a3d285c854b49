// The built-in algorithms. Adding one: its own file with a `const Algorithm k...`, one line in
// catalog.cc, one golden case in test/golden/algorithms. Everything else enumerates this list.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mccl/program.h"
#include "mccl/status.h"

namespace mccl {

struct Fraction {
  int64_t numerator = 0;
  int64_t denominator = 1;
};

// Closed form, a test compares it with the lowered program for small rank counts. S = bytes of a
// rank's larger buffer: of the one block for all_reduce, reduce and broadcast, of the n blocks for
// the others.
struct AlgorithmCost {
  int hops = 0;               // messages on the longest chain of dependent messages
  int messages = 0;           // in one iteration, by the busiest rank in its busier direction
  int recv_streams = 0;       // streams on which the rank with the most of them receives
  int message_chunks = 1;     // of the largest message
  Fraction bytes_moved;       // by the busiest rank in its busier direction, over S
  Fraction bytes_reduced;     // by the busiest rank, over S
  Fraction scratch_bytes;     // of the hungriest rank, over S
  bool is_pipelined = false;  // every hop forwards slice by slice what arrives (cost_model.h)
};

struct Algorithm {
  std::string_view name;  // "all_reduce_ring"
  Collective collective;
  std::string_view reference;  // author and year
  int rank_count_max;
  // Channel sets: consecutive operations rotate over so many sets of streams (law L2).
  int channel_sets;
  // Every output is one left fold of the inputs in rank order, rounded once, as `fold` makes it
  // (admitted under canonical determinism); a chain of reduces rounds at every hop and is not. The
  // prover checks the claim. True where nothing is reduced.
  bool reduces_in_rank_order;
  // It forwards blocks of others, whose lengths a rank of an all_to_all cannot know: right only
  // when all are equal, and so only for who asks for it by name.
  bool needs_equal_blocks = false;
  AlgorithmCost (*cost)(int rank_count);
  Result<Program> (*build)(int rank_count);  // 1 <= rank_count <= rank_count_max
};

// In catalogue order, which is also the order of ties. Pointers live for ever.
std::span<const Algorithm* const> catalog();

// Null when there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace mccl
