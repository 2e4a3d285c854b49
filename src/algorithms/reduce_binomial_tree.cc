// Binomial tree reduce, written for root 0: the broadcast tree upside down. Each rank adds what its
// children send, the smallest subtree first, and sends the sum to the rank whose number lacks its
// lowest bit.
//
// Cost: floor(log2(n)) hops on the longest chain; the root takes ceil(log2(n)) times the whole
// buffer. The last child's message is added and sent on in one step; a rank that has children
// before it keeps the partial sum in scratch, because the memory of others than the root is not
// written.
// Reference: Johnsson and Ho 1989, "Optimum broadcasting and personalized communication in
// hypercubes".
// Golden case: test/golden/algorithms/reduce_binomial_tree.txt.
#include <bit>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder tree("reduce_binomial_tree", Collective::Reduce, rank_count, 1);
  std::vector<Chunk> values;
  for (int rank = 0; rank < rank_count; ++rank) values.push_back(tree.input(rank, 0));
  if (rank_count == 1) tree.copy(values[0], tree.output(0, 0));
  for (int distance = 1; distance < rank_count; distance *= 2)
    for (int rank = 0; rank + distance < rank_count; rank += 2 * distance) {
      Chunk& value = values[static_cast<size_t>(rank)];
      const Chunk sum = rank == 0 ? tree.output(0, 0) : tree.scratch(rank, 0);
      value = tree.reduce(values[static_cast<size_t>(rank + distance)], value, sum);
    }
  return tree.lower();
}

AlgorithmCost cost(int rank_count) {
  const auto ranks = static_cast<unsigned>(rank_count);
  const auto children = static_cast<int>(std::bit_width(ranks - 1));
  // Rank 4 is the first besides the root with two children, 5 and 6.
  return {.hops = static_cast<int>(std::bit_width(ranks)) - 1,
          .messages = children,
          .recv_streams = children,
          .bytes_moved = {children, 1},
          .bytes_reduced = {children, 1},
          .scratch_bytes = {rank_count > 6 ? 1 : 0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kReduceBinomialTree;
const Algorithm kReduceBinomialTree = {.name = "reduce_binomial_tree",
                                       .collective = Collective::Reduce,
                                       .reference = "Johnsson and Ho 1989",
                                       .rank_count_max = 4096,
                                       .channel_sets = 1,
                                       .reduces_in_rank_order = false,
                                       .cost = &cost,
                                       .build = &build};

}  // namespace mccl
