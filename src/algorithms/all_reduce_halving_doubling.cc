// Halving and doubling all-reduce. The buffer is cut into p chunks, p the largest power of two that
// is not above the rank count. First every rank exchanges halves of its range of chunks with a
// partner p/2 away, then quarters with one p/4 away, and so on, each adding what came to the half
// that it keeps; in the end rank r holds the sum of chunk r. The same exchanges in reverse order
// give all chunks to all. Each rank above p hands its input to a partner first and gets the result
// last.
//
// Cost: 2 log2(p) hops, and 2(p-1)/p of the buffer sent: as few bytes as a ring in far fewer hops,
// but no pipeline. Ranks above p cost two hops and a whole buffer more. No scratch. One rank makes
// the sum of each chunk: all ranks end with equal bits.
// Reference: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
// operations in MPICH".
// Golden case: test/golden/algorithms/all_reduce_halving_doubling.txt.
#include <algorithm>
#include <bit>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

// The way back has streams of its own, so that no slice on its way there waits for one coming back.
constexpr Placement kHalves = {.channel = 0, .send_lane = -1, .recv_lane = -1};
constexpr Placement kSums = {.channel = 1, .send_lane = -1, .recv_lane = -1};

int paired_rank_count(int rank_count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(rank_count)));
}

Chunk part(const Chunk& whole, int first, int count) {
  return {whole.rank, whole.buffer, first, count};
}

// `low` and `high` hold the same range of 2 * distance chunks: each keeps the half of its own side.
void halve(ProgramBuilder& halving, Chunk& low, Chunk& high, int first, int distance) {
  const int middle = first + distance;
  const Chunk low_sum = halving.reduce(part(high, first, distance), part(low, first, distance),
                                       halving.output(low.rank, first, distance), kHalves);
  high = halving.reduce(part(low, middle, distance), part(high, middle, distance),
                        halving.output(high.rank, middle, distance), kHalves);
  low = low_sum;
}

Result<Program> build(int rank_count) {
  const int paired = paired_rank_count(rank_count);
  ProgramBuilder halving("all_reduce_halving_doubling", Collective::AllReduce, rank_count, paired);
  std::vector<Chunk> values;
  for (int rank = 0; rank < rank_count; ++rank) values.push_back(halving.input(rank, 0, paired));
  if (rank_count == 1) halving.copy(values[0], halving.output(0, 0));
  for (int extra = paired; extra < rank_count; ++extra) {
    Chunk& partner = values[static_cast<size_t>(extra - paired)];
    partner = halving.reduce(halving.input(extra, 0, paired), partner,
                             halving.output(partner.rank, 0, paired), kHalves);
  }
  for (int distance = paired / 2; distance > 0; distance /= 2)
    for (int rank = 0; rank < paired; ++rank)
      if ((rank & distance) == 0)
        halve(halving, values[static_cast<size_t>(rank)],
              values[static_cast<size_t>(rank + distance)], rank / (2 * distance) * 2 * distance,
              distance);
  for (int distance = 1; distance < paired; distance *= 2)
    for (int rank = 0; rank < paired; ++rank) {
      const int first = rank / distance * distance;
      halving.copy(halving.output(rank, first, distance),
                   halving.output(rank ^ distance, first, distance), kSums);
    }
  for (int extra = paired; extra < rank_count; ++extra)
    halving.copy(halving.output(extra - paired, 0, paired), halving.output(extra, 0, paired),
                 kSums);
  return halving.lower();
}

AlgorithmCost cost(int rank_count) {
  const int paired = paired_rank_count(rank_count);
  const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(paired))) - 1;
  const int folds = rank_count > paired ? 1 : 0;
  return {.hops = 2 * (rounds + folds),
          .messages = 2 * rounds + folds,
          .recv_streams = 2 * rounds + folds,
          .message_chunks = std::max(1, folds > 0 ? paired : paired / 2),
          .bytes_moved = {2 * (paired - 1) + folds * paired, paired},
          .bytes_reduced = {paired - 1 + folds * paired, paired},
          .scratch_bytes = {0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kAllReduceHalvingDoubling;
const Algorithm kAllReduceHalvingDoubling = {.name = "all_reduce_halving_doubling",
                                             .collective = Collective::AllReduce,
                                             .reference = "Thakur, Rabenseifner and Gropp 2005",
                                             .rank_count_max = 4096,
                                             .channel_sets = 1,
                                             .reduces_in_rank_order = false,
                                             .cost = &cost,
                                             .build = &build};

}  // namespace mccl
