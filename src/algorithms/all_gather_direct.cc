// Direct all-gather, rotated. Every rank puts its block into its output and sends it to all others
// at once: to r+1 first, then r+2 and so on, so that no two ranks aim at the same port at the same
// time.
//
// Cost: 1 hop whatever the rank count; every rank sends n-1 messages, (n-1)/n of the output, as
// many bytes as a ring; no scratch. Reference: Bruck et al. 1997 (direct exchange), "Efficient
// algorithms for all-to-all communications". Golden case:
// test/golden/algorithms/all_gather_direct.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder direct("all_gather_direct", Collective::AllGather, rank_count, 1);
  for (int rank = 0; rank < rank_count; ++rank)
    direct.copy(direct.input(rank, 0), direct.output(rank, rank));
  for (int distance = 1; distance < rank_count; ++distance)
    for (int rank = 0; rank < rank_count; ++rank)
      direct.copy(direct.output(rank, rank), direct.output((rank + distance) % rank_count, rank));
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

extern const Algorithm kAllGatherDirect;
const Algorithm kAllGatherDirect = {.name = "all_gather_direct",
                                    .collective = Collective::AllGather,
                                    .reference = "Bruck et al. 1997",
                                    .rank_count_max = 1024,
                                    .channel_sets = 1,
                                    .reduces_in_rank_order = true,
                                    .cost = &cost,
                                    .build = &build};

}  // namespace mccl
