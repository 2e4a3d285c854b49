// Binomial tree gather, written for root 0. A subtree is a range of ranks, and its first rank
// collects the blocks of the range in order: it puts its own into scratch, takes the blocks of its
// children, the smallest subtree first, and sends the range to the rank whose number lacks its
// lowest bit. The root collects in its output.
//
// Cost: floor(log2(n)) hops on the longest chain; the root takes ceil(log2(n)) messages instead of
// the n-1 of the direct gather, with the same bytes, but others carry bytes that are not theirs:
// for small blocks among many ranks. Scratch for the largest subtree.
// Reference: Johnsson and Ho 1989, "Optimum broadcasting and personalized communication in
// hypercubes".
// Golden case: test/golden/algorithms/gather_binomial_tree.txt.
#include <bit>

#include "algorithms/binomial_tree.h"
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

// Where `rank` keeps the blocks of `count` ranks from `first` on; a leaf has them in its input.
Chunk blocks_at(const ProgramBuilder& tree, int rank, int first, int count, int rank_count) {
  if (rank == 0) return tree.output(0, first, count);
  if (subtree_rank_count(rank, rank_count) == 1) return tree.input(rank, 0);
  return tree.scratch(rank, first - rank, count);
}

Result<Program> build(int rank_count) {
  ProgramBuilder tree("gather_binomial_tree", Collective::Gather, rank_count, 1);
  for (int rank = 0; rank < rank_count; ++rank)
    if (rank == 0 || subtree_rank_count(rank, rank_count) > 1)
      tree.copy(tree.input(rank, 0), blocks_at(tree, rank, rank, 1, rank_count));
  for (int distance = 1; distance < rank_count; distance *= 2)
    for (int rank = 0; rank + distance < rank_count; rank += 2 * distance) {
      const int child = rank + distance;
      const int count = subtree_rank_count(child, rank_count);
      tree.copy(blocks_at(tree, child, child, count, rank_count),
                blocks_at(tree, rank, child, count, rank_count));
    }
  return tree.lower();
}

AlgorithmCost cost(int rank_count) {
  const auto ranks = static_cast<unsigned>(rank_count);
  const int largest = largest_subtree_rank_count(rank_count);
  return {.hops = static_cast<int>(std::bit_width(ranks)) - 1,
          .messages = static_cast<int>(std::bit_width(ranks - 1)),
          .recv_streams = static_cast<int>(std::bit_width(ranks - 1)),
          .message_chunks = largest,
          .bytes_moved = {rank_count - 1, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {largest > 1 ? largest : 0, rank_count},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kGatherBinomialTree;
const Algorithm kGatherBinomialTree = {.name = "gather_binomial_tree",
                                       .collective = Collective::Gather,
                                       .reference = "Johnsson and Ho 1989",
                                       .rank_count_max = 4096,
                                       .channel_sets = 1,
                                       .reduces_in_rank_order = true,
                                       .cost = &cost,
                                       .build = &build};

}  // namespace mccl
