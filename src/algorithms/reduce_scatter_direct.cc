// Direct reduce-scatter, rotated. Every rank sends block d of its input to rank d at once; rank d
// folds the shares of all ranks in rank order, its own at its place. Rank r sends to r+1 first,
// then r+2 and so on, so that no two ranks aim at the same port at the same time.
//
// Cost: 1 hop whatever the rank count; every rank sends n-1 messages, (n-1)/n of its input, as many
// bytes as a ring; it needs scratch for the n-1 shares of others. The sum is a fold in rank order:
// the bits depend on the inputs alone.
// Reference: Bruck et al. 1997 (direct exchange), "Efficient algorithms for all-to-all
// communications".
// Golden case: test/golden/algorithms/reduce_scatter_direct.txt.
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

// The owner's scratch has no place for its own share.
Chunk share_at_owner(const ProgramBuilder& direct, int owner, int rank) {
  return direct.scratch(owner, rank < owner ? rank : rank - 1);
}

Result<Program> build(int rank_count) {
  ProgramBuilder direct("reduce_scatter_direct", Collective::ReduceScatter, rank_count, 1);
  if (rank_count == 1) direct.copy(direct.input(0, 0), direct.output(0, 0));
  for (int distance = 1; distance < rank_count; ++distance)
    for (int rank = 0; rank < rank_count; ++rank) {
      const int owner = (rank + distance) % rank_count;
      direct.copy(direct.input(rank, owner), share_at_owner(direct, owner, rank));
    }
  for (int owner = 0; rank_count > 1 && owner < rank_count; ++owner) {
    std::vector<Chunk> shares;
    for (int rank = 0; rank < rank_count; ++rank)
      shares.push_back(rank == owner ? direct.input(owner, owner)
                                     : share_at_owner(direct, owner, rank));
    direct.fold(shares, {direct.output(owner, 0)});
  }
  return direct.lower();
}

AlgorithmCost cost(int rank_count) {
  const int peers = rank_count - 1;
  return {.hops = rank_count > 1 ? 1 : 0,
          .messages = peers,
          .recv_streams = peers,
          .bytes_moved = {peers, rank_count},
          .bytes_reduced = {peers, rank_count},
          .scratch_bytes = {peers, rank_count},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kReduceScatterDirect;
const Algorithm kReduceScatterDirect = {.name = "reduce_scatter_direct",
                                        .collective = Collective::ReduceScatter,
                                        .reference = "Bruck et al. 1997",
                                        .rank_count_max = 1024,
                                        .channel_sets = 1,
                                        .reduces_in_rank_order = true,
                                        .cost = &cost,
                                        .build = &build};

}  // namespace mccl
