// Binomial tree scatter, written for root 0: the gather tree upside down. A subtree is a range of
// ranks. The root sends each child the blocks of its range, the largest first; a child keeps its
// own block and sends its children theirs in the same way.
//
// Cost: floor(log2(n)) hops on the longest chain; the root sends ceil(log2(n)) messages instead of
// the n-1 of the direct scatter, with the same bytes, but others carry bytes that are not theirs:
// for small blocks among many ranks. Scratch for the largest subtree.
// Reference: Johnsson and Ho 1989, "Optimum broadcasting and personalized communication in
// hypercubes".
// Golden case: test/golden/algorithms/scatter_binomial_tree.txt.
#include <bit>

#include "algorithms/binomial_tree.h"
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

// Where `rank` has the blocks of `count` ranks from `first` on; a leaf takes its own as its output.
Chunk blocks_at(const ProgramBuilder& tree, int rank, int first, int count, int rank_count) {
  if (rank == 0) return tree.input(0, first, count);
  if (subtree_rank_count(rank, rank_count) == 1) return tree.output(rank, 0);
  return tree.scratch(rank, first - rank, count);
}

Result<Program> build(int rank_count) {
  ProgramBuilder tree("scatter_binomial_tree", Collective::Scatter, rank_count, 1);
  const int span = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rank_count)));
  for (int distance = span / 2; distance > 0; distance /= 2)
    for (int rank = 0; rank + distance < rank_count; rank += 2 * distance) {
      const int child = rank + distance;
      const int count = subtree_rank_count(child, rank_count);
      tree.copy(blocks_at(tree, rank, child, count, rank_count),
                blocks_at(tree, child, child, count, rank_count));
    }
  for (int rank = 0; rank < rank_count; ++rank)
    if (rank == 0 || subtree_rank_count(rank, rank_count) > 1)
      tree.copy(blocks_at(tree, rank, rank, 1, rank_count), tree.output(rank, 0));
  return tree.lower();
}

AlgorithmCost cost(int rank_count) {
  const auto ranks = static_cast<unsigned>(rank_count);
  const int largest = largest_subtree_rank_count(rank_count);
  return {.hops = static_cast<int>(std::bit_width(ranks)) - 1,
          .messages = static_cast<int>(std::bit_width(ranks - 1)),
          .recv_streams = rank_count > 1 ? 1 : 0,
          .message_chunks = largest,
          .bytes_moved = {rank_count - 1, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {largest > 1 ? largest : 0, rank_count},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kScatterBinomialTree;
const Algorithm kScatterBinomialTree = {.name = "scatter_binomial_tree",
                                        .collective = Collective::Scatter,
                                        .reference = "Johnsson and Ho 1989",
                                        .rank_count_max = 4096,
                                        .channel_sets = 1,
                                        .reduces_in_rank_order = true,
                                        .cost = &cost,
                                        .build = &build};

}  // namespace mccl
