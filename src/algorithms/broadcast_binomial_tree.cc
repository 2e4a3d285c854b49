// Binomial tree broadcast, written for root 0. The root sends to the rank half the way up, then to
// the one a quarter up, and so on; whoever has the value does the same for the ranks above it up to
// the next one that has it. A rank's message comes from the rank whose number lacks its lowest bit.
//
// Cost: floor(log2(n)) hops on the longest chain; the root sends ceil(log2(n)) times the whole
// buffer, the largest subtree first. No scratch. Each rank forwards to its largest subtree as the
// message arrives.
// Reference: Johnsson and Ho 1989, "Optimum broadcasting and personalized communication in
// hypercubes".
// Golden case: test/golden/algorithms/broadcast_binomial_tree.txt.
#include <bit>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder tree("broadcast_binomial_tree", Collective::Broadcast, rank_count, 1);
  tree.copy(tree.input(0, 0), tree.output(0, 0));
  const int span = static_cast<int>(std::bit_ceil(static_cast<unsigned>(rank_count)));
  for (int distance = span / 2; distance > 0; distance /= 2)
    for (int rank = 0; rank + distance < rank_count; rank += 2 * distance)
      tree.copy(tree.output(rank, 0), tree.output(rank + distance, 0));
  return tree.lower();
}

AlgorithmCost cost(int rank_count) {
  const auto ranks = static_cast<unsigned>(rank_count);
  const auto children = static_cast<int>(std::bit_width(ranks - 1));
  return {.hops = static_cast<int>(std::bit_width(ranks)) - 1,
          .messages = children,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {children, 1},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kBroadcastBinomialTree;
const Algorithm kBroadcastBinomialTree = {.name = "broadcast_binomial_tree",
                                          .collective = Collective::Broadcast,
                                          .reference = "Johnsson and Ho 1989",
                                          .rank_count_max = 4096,
                                          .channel_sets = 1,
                                          .reduces_in_rank_order = true,
                                          .cost = &cost,
                                          .build = &build};

}  // namespace mccl
