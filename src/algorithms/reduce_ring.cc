// Ring reduce, written for root 0: a chain. The last rank sends its input to the one before, which
// adds its own to every slice as it arrives and sends the sum on, and so on down to the root.
//
// Cost: n-1 hops; every rank sends the buffer once, the least possible, and reduces it once. Hops
// overlap slice by slice: a large buffer takes the time of its bytes and n-2 slices more, a small
// one n-1 hops. No scratch: a sum that passes is added up in the message.
// Reference: Chan et al. 2007, "Collective communication: theory, practice, and experience".
// Golden case: test/golden/algorithms/reduce_ring.txt.
#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder ring("reduce_ring", Collective::Reduce, rank_count, 1);
  Chunk value = ring.input(rank_count - 1, 0);
  if (rank_count == 1) ring.copy(value, ring.output(0, 0));
  for (int rank = rank_count - 2; rank >= 0; --rank) {
    // Scratch that is sent on at once and read by nobody else: fusion leaves none of it.
    const Chunk sum = rank == 0 ? ring.output(0, 0) : ring.scratch(rank, 0);
    value = ring.reduce(value, ring.input(rank, 0), sum);
  }
  return ring.lower();
}

AlgorithmCost cost(int rank_count) {
  const int is_sent = rank_count > 1 ? 1 : 0;
  return {.hops = rank_count - 1,
          .messages = is_sent,
          .recv_streams = rank_count > 1 ? 1 : 0,
          .bytes_moved = {is_sent, 1},
          .bytes_reduced = {is_sent, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

}  // namespace

extern const Algorithm kReduceRing;
const Algorithm kReduceRing = {.name = "reduce_ring",
                               .collective = Collective::Reduce,
                               .reference = "Chan et al. 2007",
                               .rank_count_max = 4096,
                               .channel_sets = 4,
                               .reduces_in_rank_order = false,
                               .cost = &cost,
                               .build = &build};

}  // namespace mccl
