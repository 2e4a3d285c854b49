// All-pairs all-reduce, rotated. The buffer is cut into one chunk per rank, and rank c owns chunk
// c. Every rank sends each owner its share at once; the owner folds the shares of all ranks in rank
// order, its own at its place, and sends the sum to everyone. Rank r sends to r+1 first, then r+2
// and so on, so that no two ranks aim at the same port at the same time.
//
// Cost: 2 hops whatever the rank count; every rank sends 2(n-1) messages of 1/n of the buffer each,
// as many bytes as a ring; it needs scratch for the n-1 shares of others. The results travel on a
// channel of their own, so that they never queue behind shares. The sum of a chunk is a fold in
// rank order, made once: all ranks end with equal bits, and the bits depend on the inputs alone.
// Reference: Bruck et al. 1997 (direct exchange), "Efficient algorithms for all-to-all
// communications".
// Golden case: test/golden/algorithms/all_reduce_all_pairs.txt.
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

constexpr Placement kShares = {.channel = 0, .send_lane = -1, .recv_lane = -1};
constexpr Placement kSums = {.channel = 1, .send_lane = -1, .recv_lane = -1};

// The owner's scratch has no place for its own share.
Chunk share_at_owner(const ProgramBuilder& pairs, int owner, int rank) {
  return pairs.scratch(owner, rank < owner ? rank : rank - 1);
}

Result<Program> build(int rank_count) {
  ProgramBuilder pairs("all_reduce_all_pairs", Collective::AllReduce, rank_count, rank_count);
  if (rank_count == 1) pairs.copy(pairs.input(0, 0), pairs.output(0, 0));
  for (int distance = 1; distance < rank_count; ++distance)
    for (int rank = 0; rank < rank_count; ++rank) {
      const int owner = (rank + distance) % rank_count;
      pairs.copy(pairs.input(rank, owner), share_at_owner(pairs, owner, rank), kShares);
    }
  for (int owner = 0; rank_count > 1 && owner < rank_count; ++owner) {
    std::vector<Chunk> shares;
    for (int rank = 0; rank < rank_count; ++rank)
      shares.push_back(rank == owner ? pairs.input(owner, owner)
                                     : share_at_owner(pairs, owner, rank));
    pairs.fold(shares, {pairs.output(owner, owner)});
  }
  for (int distance = 1; distance < rank_count; ++distance)
    for (int owner = 0; owner < rank_count; ++owner)
      pairs.copy(pairs.output(owner, owner), pairs.output((owner + distance) % rank_count, owner),
                 kSums);
  return pairs.lower();
}

AlgorithmCost cost(int rank_count) {
  const int peers = rank_count - 1;
  return {.hops = rank_count > 1 ? 2 : 0,
          .messages = 2 * peers,
          .recv_streams = 2 * peers,
          .bytes_moved = {2 * peers, rank_count},
          .bytes_reduced = {peers, rank_count},
          .scratch_bytes = {peers, rank_count},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kAllReduceAllPairs;
const Algorithm kAllReduceAllPairs = {.name = "all_reduce_all_pairs",
                                      .collective = Collective::AllReduce,
                                      .reference = "Bruck et al. 1997",
                                      .rank_count_max = 1024,
                                      .channel_sets = 1,
                                      .reduces_in_rank_order = true,
                                      .cost = &cost,
                                      .build = &build};

}  // namespace mccl
