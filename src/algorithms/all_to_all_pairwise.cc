// Pairwise all-to-all. Every rank sends each other rank the block that is meant for it, from where
// it lies to where it belongs: to r+1 first, then r+2 and so on, so that no two ranks aim at the
// same port at the same time.
//
// Cost: 1 hop whatever the rank count; every rank sends n-1 messages, (n-1)/n of its input, which
// is what it must. No scratch and no dependences: every lane either sends to one peer or receives
// from one, so that a rank need know the lengths of its own blocks only. Reference: Bruck et al.
// 1997 (direct exchange), "Efficient algorithms for all-to-all communications". Golden case:
// test/golden/algorithms/all_to_all_pairwise.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder pairs("all_to_all_pairwise", Collective::AllToAll, rank_count, 1);
  pairs.serve(false, true);
  for (int distance = 0; distance < rank_count; ++distance)
    for (int rank = 0; rank < rank_count; ++rank) {
      const int peer = (rank + distance) % rank_count;
      pairs.copy(pairs.input(rank, peer), pairs.output(peer, rank),
                 {.channel = 0, .send_lane = distance, .recv_lane = rank_count + distance});
    }
  return pairs.lower();
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

extern const Algorithm kAllToAllPairwise;
const Algorithm kAllToAllPairwise = {.name = "all_to_all_pairwise",
                                     .collective = Collective::AllToAll,
                                     .reference = "Bruck et al. 1997",
                                     .rank_count_max = 1024,
                                     .channel_sets = 1,
                                     .reduces_in_rank_order = true,
                                     .cost = &cost,
                                     .build = &build};

}  // namespace mccl
