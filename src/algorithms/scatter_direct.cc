// Direct scatter, written for root 0: the root sends every rank its block.
//
// Cost: 1 hop whatever the rank count; the root sends n-1 messages, (n-1)/n of its input, which is
// what it must. No scratch.
// Reference: Chan et al. 2007, "Collective communication: theory, practice, and experience".
// Golden case: test/golden/algorithms/scatter_direct.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder direct("scatter_direct", Collective::Scatter, rank_count, 1);
  for (int rank = 0; rank < rank_count; ++rank)
    direct.copy(direct.input(0, rank), direct.output(rank, 0));
  return direct.lower();
}

AlgorithmCost cost(int rank_count) {
  const int peers = rank_count - 1;
  return {.hops = rank_count > 1 ? 1 : 0,
          .messages = peers,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {peers, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kScatterDirect;
const Algorithm kScatterDirect = {.name = "scatter_direct",
                                  .collective = Collective::Scatter,
                                  .reference = "Chan et al. 2007",
                                  .rank_count_max = 1024,
                                  .channel_sets = 1,
                                  .reduces_in_rank_order = true,
                                  .cost = &cost,
                                  .build = &build};

}  // namespace mccl
