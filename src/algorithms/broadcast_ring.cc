// Ring broadcast, written for root 0: a chain. The root sends to rank 1, which passes every slice
// on to rank 2 as it arrives, and so on to the last rank.
//
// Cost: n-1 hops; every rank sends the buffer once, the least possible. Hops overlap slice by
// slice: a large buffer takes the time of its bytes and n-2 slices more, a small one n-1 hops. No
// scratch. Reference: Chan et al. 2007, "Collective communication: theory, practice, and
// experience". Golden case: test/golden/algorithms/broadcast_ring.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder ring("broadcast_ring", Collective::Broadcast, rank_count, 1);
  Chunk value = ring.copy(ring.input(0, 0), ring.output(0, 0));
  for (int rank = 1; rank < rank_count; ++rank) value = ring.copy(value, ring.output(rank, 0));
  return ring.lower();
}

AlgorithmCost cost(int rank_count) {
  const int is_sent = rank_count > 1 ? 1 : 0;
  return {.hops = rank_count - 1,
          .messages = is_sent,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {is_sent, 1},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

}  // namespace

extern const Algorithm kBroadcastRing;
const Algorithm kBroadcastRing = {.name = "broadcast_ring",
                                  .collective = Collective::Broadcast,
                                  .reference = "Chan et al. 2007",
                                  .rank_count_max = 4096,
                                  .channel_sets = 4,
                                  .reduces_in_rank_order = true,
                                  .cost = &cost,
                                  .build = &build};

}  // namespace mccl
