// Lowered programs written out by hand, for tests of the parts below `lang`. All serve in-place and
// out-of-place calls (the all-to-all: out-of-place ones), and all work for every rank count from 1.
#pragma once

#include <string>
#include <vector>

#include "mccl/program.h"

namespace mccl {

// One fused lane of 2n - 1 steps per rank; n chunks, chunk c starts on rank c.
Program make_ring_all_reduce(int rank_count);

// Every rank sends chunk c to rank c (the order rotates), folds the chunks it got in rank order,
// and sends the result to all. Lane 0 folds; the next n - 1 lanes send, the last n - 1 receive.
Program make_all_pairs_all_reduce(int rank_count);

// Classical, with fold-in and fold-out beyond the largest power of two; one chunk; lane 0 folds in,
// each round has a lane that sends the output and then reduces into it.
Program make_recursive_doubling_all_reduce(int rank_count);

// Lane 0 copies the own block, lane 1 passes blocks to the right; `chunk_count` chunks per message.
Program make_ring_all_gather(int rank_count, int chunk_count = 1);

// Rank r gets the buffer from r without its highest bit; lane 0 copies or receives, then one lane
// per child.
Program make_binomial_broadcast(int rank_count, int chunk_count = 1);

// One fused lane of n steps per rank; the block of rank d starts on the rank after d.
Program make_ring_reduce_scatter(int rank_count);

// The first half of the all-pairs all-reduce: lane 0 folds, n - 1 lanes send, n - 1 receive.
Program make_direct_reduce_scatter(int rank_count);

// Lane 0 copies the own block; then a lane that sends and one that receives per distance.
Program make_pairwise_all_to_all(int rank_count, int chunk_count = 1);

// Rank 0 takes every block in a lane of its own; its lane 0 copies.
Program make_direct_gather(int rank_count, int chunk_count = 1);

struct ProgramFixture {
  std::string name;
  Program (*make)(int rank_count);
};
const std::vector<ProgramFixture>& program_fixtures();

// Spans of one chunk, or of `count`.
Span input_span(int rank, int index, int count = 1);
Span output_span(int rank, int index, int count = 1);
Span scratch_span(int rank, int index, int count = 1);

}  // namespace mccl
