// Ring all-gather. Every rank puts its block into its output and sends it to its right neighbour;
// each block travels on around the ring until the last rank has it.
//
// Cost: n-1 hops; every rank sends all blocks but the one of its right neighbour, (n-1)/n of the
// output, which is the least possible; no scratch. Hops overlap slice by slice.
// Reference: Chan et al. 2007, "Collective communication: theory, practice, and experience".
// Golden case: test/golden/algorithms/all_gather_ring.txt.
#include "algorithms/catalog.h"
#include "algorithms/ring_traffic.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder ring("all_gather_ring", Collective::AllGather, rank_count, 1);
  for (int block = 0; block < rank_count; ++block) {
    Chunk value = ring.copy(ring.input(block, 0), ring.output(block, block));
    for (int step = 1; step < rank_count; ++step) {
      const int rank = (value.rank + 1) % rank_count;
      value = ring.copy(value, ring.output(rank, block));
    }
  }
  return ring.lower();
}

AlgorithmCost cost(int rank_count) {
  const int hops = rank_count - 1;
  return {.hops = hops,
          .messages = hops,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {hops, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

int64_t visit_traffic(int rank_count, const TrafficVisitor& visit) {
  visit_ring_traffic(rank_count, rank_count - 1, visit);
  return rank_count;
}

}  // namespace

extern const Algorithm kAllGatherRing;
const Algorithm kAllGatherRing = {.name = "all_gather_ring",
                                  .collective = Collective::AllGather,
                                  .reference = "Chan et al. 2007",
                                  .rank_count_max = 4096,
                                  .channel_sets = 4,
                                  .reduces_in_rank_order = true,
                                  .cost = &cost,
                                  .build = &build,
                                  .visit_traffic = &visit_traffic};

}  // namespace mccl
