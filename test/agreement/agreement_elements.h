// What the agreement tests know about element types and operations: which pairs they post, what
// goes in, and whether what comes out can be right. Layout, ranks and memory are agreement_case's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/prng.h"
#include "mccl/types.h"
#include "verify/reference.h"

namespace mccl {

struct ElementPair {
  DataType dtype;
  ReduceOp op;
};

// Where a call stands among those of its algorithm.
struct PairTurn {
  int rank_count;
  size_t count_index;
  size_t count_total;
};

// The pairs to post: for a reduction every pair that has a meaning, for a movement every type, as
// Sum. float32, bfloat16 and int64 (with Sum, Avg, Min and Max) are posted always. Each other pair
// is posted with every third number of ranks, then at two counts, or at one if there are only two;
// which ones differs from pair to pair.
std::vector<ElementPair> reduction_pairs(const PairTurn& now);
std::vector<ElementPair> movement_pairs(const PairTurn& now);

// Whether make_elements has special values of the type: NaN, infinities, -0 and subnormals.
bool has_special_values(DataType dtype);

Bytes make_elements(DataType dtype, bool with_specials, Prng& prng, int64_t count);

// Empty when `output` can be the reduction of the inputs, all equally long: integers and bool
// exact, finite float results within the dtype's bound of exact arithmetic.
std::string judge_elements(DataType dtype, ReduceOp op, std::span<const Bytes> inputs,
                           const Bytes& output);

}  // namespace mccl
