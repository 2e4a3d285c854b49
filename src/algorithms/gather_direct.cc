// Direct gather, written for root 0: every rank sends its block to the root.
//
// Cost: 1 hop whatever the rank count; the root takes n-1 messages, (n-1)/n of its output, which is
// what it must. No scratch.
// Reference: Chan et al. 2007, "Collective communication: theory, practice, and experience".
// Golden case: test/golden/algorithms/gather_direct.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder direct("gather_direct", Collective::Gather, rank_count, 1);
  for (int rank = 0; rank < rank_count; ++rank)
    direct.copy(direct.input(rank, 0), direct.output(0, rank));
  return direct.lower();
}

AlgorithmCost cost(int rank_count) {
  const int peers = rank_count - 1;
  return {.hops = rank_count > 1 ? 1 : 0,
          .messages = peers,
          .recv_streams = peers,
          .bytes_moved = {peers, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kGatherDirect;
const Algorithm kGatherDirect = {.name = "gather_direct",
                                 .collective = Collective::Gather,
                                 .reference = "Chan et al. 2007",
                                 .rank_count_max = 1024,
                                 .channel_sets = 1,
                                 .reduces_in_rank_order = true,
                                 .cost = &cost,
                                 .build = &build};

}  // namespace mccl
