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
//   custom           by contract     by contract     one for all: its blocks have one length
//
// Rooted collectives are rooted at rank 0; other roots renumber the ranks.
#pragma once

#include <optional>

#include "mccl/program.h"

namespace mccl {

// Whether outputs are reductions of all ranks' inputs; else every output is one rank's input. Of a
// custom collective: whether they may be reductions at all.
bool is_reducing(Collective collective);

// Blocks of `rank`'s input or output.
int block_count(const Program& program, Buffer buffer, int rank);
// Whether the input of `rank` holds anything: the others' of a broadcast do not.
bool holds_input(const Program& program, int rank);

// Blocks that the size S of a call counts: those of the larger buffer, of the rank where it is
// largest.
int size_block_count(const Program& program);
// The same where no contract is needed.
int size_block_count(Collective collective, int rank_count);

// Law L4: a block's length belongs to its origin, which is a number in [0, origin_block_count).
int origin_block_count(const Program& program);
int origin_block(const Program& program, Buffer buffer, int rank, int block);
// The rank whose input an origin is. Requires that the collective has a row above and does not
// reduce.
int source_rank(const Program& program, int origin_block);

// In place, input chunk i of `rank` and output chunk i + shift are the same memory, where both
// exist; empty when the collective has no in-place form.
std::optional<int> in_place_shift(const Program& program, int rank);

}  // namespace mccl
