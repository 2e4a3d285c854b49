// Direct reduce, written for root 0: every rank sends its whole input to the root, which folds them
// in rank order, its own first.
//
// Cost: 1 hop whatever the rank count; the root takes and folds n-1 times the buffer and has
// scratch for as much. For the smallest buffers, and where canonical determinism is asked for: the
// sum is a fold in the order of ranks from the root on. Reference: Chan et al. 2007, "Collective
// communication: theory, practice, and experience". Golden case:
// test/golden/algorithms/reduce_direct.txt.
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

Result<Program> build(int rank_count) {
  ProgramBuilder direct("reduce_direct", Collective::Reduce, rank_count, 1);
  std::vector<Chunk> shares = {direct.input(0, 0)};
  for (int rank = 1; rank < rank_count; ++rank)
    shares.push_back(direct.copy(direct.input(rank, 0), direct.scratch(0, rank - 1)));
  if (rank_count == 1)
    direct.copy(shares[0], direct.output(0, 0));
  else
    direct.fold(shares, {direct.output(0, 0)});
  return direct.lower();
}

AlgorithmCost cost(int rank_count) {
  const int peers = rank_count - 1;
  return {.hops = rank_count > 1 ? 1 : 0,
          .messages = peers,
          .recv_streams = peers,
          .bytes_moved = {peers, 1},
          .bytes_reduced = {peers, 1},
          .scratch_bytes = {peers, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kReduceDirect;
const Algorithm kReduceDirect = {.name = "reduce_direct",
                                 .collective = Collective::Reduce,
                                 .reference = "Chan et al. 2007",
                                 .rank_count_max = 1024,
                                 .channel_sets = 1,
                                 .reduces_in_rank_order = true,
                                 .cost = &cost,
                                 .build = &build};

}  // namespace mccl
