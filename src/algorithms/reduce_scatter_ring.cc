// Ring reduce-scatter. The block of rank d starts on the rank after d and travels once around the
// ring, each rank adding its own share to what passes; the last rank it comes to is d, which keeps
// it. Everything a rank sends goes to its right neighbour.
//
// Cost: n-1 hops; every rank sends (n-1)/n of its input, the least possible, and reduces as much.
// No scratch, and no input is written: a sum that passes is added up in the message, and only the
// last hop stores it. Hops overlap slice by slice. One rank makes each chain of additions.
// Reference: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms" (its first half).
// Golden case: test/golden/algorithms/reduce_scatter_ring.txt.
#include "algorithms/catalog.h"
#include "algorithms/ring_traffic.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder ring("reduce_scatter_ring", Collective::ReduceScatter, rank_count, 1);
  for (int block = 0; block < rank_count; ++block) {
    Chunk value = ring.input((block + 1) % rank_count, block);
    if (rank_count == 1) ring.copy(value, ring.output(block, 0));
    for (int step = 2; step <= rank_count; ++step) {
      const int rank = (block + step) % rank_count;
      // Scratch that is sent on at once and read by nobody else: fusion leaves none of it.
      const Chunk sum = rank == block ? ring.output(rank, 0) : ring.scratch(rank, block);
      value = ring.reduce(value, ring.input(rank, block), sum);
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
          .bytes_reduced = {hops, rank_count},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

int64_t visit_traffic(int rank_count, const TrafficVisitor& visit) {
  visit_ring_traffic(rank_count, rank_count - 1, visit);
  return rank_count;
}

}  // namespace

extern const Algorithm kReduceScatterRing;
const Algorithm kReduceScatterRing = {.name = "reduce_scatter_ring",
                                      .collective = Collective::ReduceScatter,
                                      .reference = "Patarasuk and Yuan 2009",
                                      .rank_count_max = 4096,
                                      .channel_sets = 4,
                                      .reduces_in_rank_order = false,
                                      .cost = &cost,
                                      .build = &build,
                                      .visit_traffic = &visit_traffic};

}  // namespace mccl
