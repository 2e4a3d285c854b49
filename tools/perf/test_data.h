// Inputs of which every result is known exactly, whatever the order of reduction: small whole
// numbers, another set for every rank and every iteration, so that a stale or misplaced element
// shows. They repeat after kPatternElements, a prime, so that filling and comparing run at the
// speed of memory.
//
// Element `index` of rank r's input is one of r's pattern at index modulo kPatternElements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mccl/types.h"

namespace mccl {

constexpr int64_t kPatternElements = 1009;

// What is sent, and how it is folded.
struct PatternKey {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  bool is_reduced = true;  // false: `op` is not looked at, values have more bits
  int rank_count = 1;
  int64_t iteration = 0;
};

// The value of an element before it is written as its type. `place` < kPatternElements.
int64_t pattern_value(const PatternKey& key, int rank, int64_t place);
// Of the fold over all ranks, in whole numbers, where integers may wrap when they are written.
int64_t folded_value(const PatternKey& key, int64_t place);

// The bytes of kPatternElements elements.
using Pattern = std::vector<std::byte>;
Pattern make_pattern(const PatternKey& key, int rank);
Pattern make_folded_pattern(const PatternKey& key);

// Writes elements first_index .. first_index + count of `pattern`, repeated.
void fill_pattern(const Pattern& pattern, int64_t first_index, int64_t count, std::byte* data);
// How many of `count` elements differ from that, bit by bit.
int64_t count_wrong(const Pattern& pattern, int64_t first_index, int64_t count,
                    const std::byte* data);

}  // namespace mccl
