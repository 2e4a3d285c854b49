// Ring all-reduce. The buffer is cut into one chunk per rank. Chunk c starts on rank c and travels
// once around the ring, each rank adding its own share; the rank that ends the tour holds the total
// and sends it around once more. Everything a rank sends goes to its right neighbour.
//
// Cost: 2(n-1) hops; every rank sends 2(n-1)/n of the buffer, which is the least possible for one
// port per rank, and reduces (n-1)/n of it; no scratch. Hops overlap slice by slice, so a large
// buffer takes the time of its bytes alone. The chain of additions of a chunk is the same for every
// rank, because one rank makes it: all ranks end with equal bits.
// Reference: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms".
// Golden case: test/golden/algorithms/all_reduce_ring.txt.
#include "algorithms/catalog.h"
#include "algorithms/ring_traffic.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder ring("all_reduce_ring", Collective::AllReduce, rank_count, rank_count);
  for (int chunk = 0; chunk < rank_count; ++chunk) {
    Chunk value = ring.input(chunk, chunk);
    if (rank_count == 1) value = ring.copy(value, ring.output(0, 0));
    for (int step = 1; step < rank_count; ++step) {
      const int rank = (chunk + step) % rank_count;
      value = ring.reduce(value, ring.input(rank, chunk), ring.output(rank, chunk));
    }
    for (int step = 1; step < rank_count; ++step) {
      const int rank = (value.rank + 1) % rank_count;
      value = ring.copy(value, ring.output(rank, chunk));
    }
  }
  return ring.lower();
}

AlgorithmCost cost(int rank_count) {
  const int hops = 2 * (rank_count - 1);
  return {.hops = hops,
          .messages = hops,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {hops, rank_count},
          .bytes_reduced = {rank_count - 1, rank_count},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

int64_t visit_traffic(int rank_count, const TrafficVisitor& visit) {
  visit_ring_traffic(rank_count, 2 * (rank_count - 1), visit);
  return rank_count;
}

}  // namespace

extern const Algorithm kAllReduceRing;
const Algorithm kAllReduceRing = {.name = "all_reduce_ring",
                                  .collective = Collective::AllReduce,
                                  .reference = "Patarasuk and Yuan 2009",
                                  .rank_count_max = 4096,
                                  .channel_sets = 4,
                                  .reduces_in_rank_order = false,
                                  .cost = &cost,
                                  .build = &build,
                                  .visit_traffic = &visit_traffic};

}  // namespace mccl
