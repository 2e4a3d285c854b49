// What each collective means: the blocks of its buffers, where a block comes from and where it
// goes. Whoever judges, lowers, cuts or runs a program asks here; nobody else knows.
//
//   collective       input blocks    output blocks   an origin is
//   all_reduce       1               1               the one block
//   all_gather       1               n               the rank whose input it is
//   broadcast        1               1               the one block, of rank 0
//   reduce_scatter   n               1               the rank whose output it becomes
//   reduce           1               1 on rank 0     the one block
//   gather           1               n on rank 0     the rank whose input it is
//   scatter          n on rank 0     1               the rank whose output it becomes
//   all_to_all       n               n               from * n + to
//
// Rooted collectives are rooted at rank 0; other roots renumber the ranks.
#pragma once

#include <optional>

#include "mccl/program.h"

namespace mccl {

// Whether outputs are reductions of all ranks' inputs; else every output is one rank's input.
bool is_reducing(Collective collective);

// Blocks of `rank`'s input or output.
int block_count(Collective collective, Buffer buffer, int rank, int rank_count);
// Whether the input of `rank` holds anything: the others' of a broadcast do not.
bool holds_input(Collective collective, int rank);

// Blocks that the size S of a call counts: those of the larger buffer.
int size_block_count(Collective collective, int rank_count);

// Law L4: a block's length belongs to its origin, which is a number in [0, origin_block_count).
int origin_block_count(Collective collective, int rank_count);
int origin_block(Collective collective, Buffer buffer, int rank, int block, int rank_count);
// The rank whose input an origin is. Requires !is_reducing().
int source_rank(Collective collective, int origin_block, int rank_count);

// In place, input chunk i of `rank` and output chunk i + shift are the same memory, where both
// exist; empty when the collective has no in-place form.
std::optional<int> in_place_shift(const Program& program, int rank);

}  // namespace mccl
