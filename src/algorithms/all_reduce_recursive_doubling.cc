// Recursive doubling all-reduce. In round k every rank exchanges its whole value with the rank
// whose number differs in bit k, and both add what came. With a rank count that is no power of two,
// each rank above the largest power hands its input to a partner first and gets the result last.
//
// Cost: log2(n) hops; with ranks left over one more, or two when they are more than half as many as
// the others (only then a value comes from one of them and ends at one through a message a round).
// Every hop carries the whole buffer, so this is for small ones. No scratch: the message is reduced
// where it is needed as it arrives, and forwarded in the same step. Every round combines the
// unordered pair {mine, the peer's}, so all ranks build the same tree and end with equal bits.
// Reference: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
// operations in MPICH".
// Golden case: test/golden/algorithms/all_reduce_recursive_doubling.txt.
#include <bit>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

int paired_rank_count(int rank_count) {
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(rank_count)));
}

int round_count(int rank_count) {
  return static_cast<int>(std::bit_width(static_cast<unsigned>(paired_rank_count(rank_count)))) - 1;
}

// Both values move before either is overwritten.
void exchange(ProgramBuilder& doubling, Chunk& low, Chunk& high) {
  const Chunk at_high = doubling.copy(low, doubling.scratch(high.rank, 0));
  const Chunk at_low = doubling.copy(high, doubling.scratch(low.rank, 0));
  low = doubling.reduce(at_low, low, doubling.output(low.rank, 0));
  high = doubling.reduce(at_high, high, doubling.output(high.rank, 0));
}

Result<Program> build(int rank_count) {
  ProgramBuilder doubling("all_reduce_recursive_doubling", Collective::AllReduce, rank_count, 1);
  const int paired = paired_rank_count(rank_count);
  std::vector<Chunk> values;
  for (int rank = 0; rank < rank_count; ++rank) values.push_back(doubling.input(rank, 0));
  if (rank_count == 1) doubling.copy(values[0], doubling.output(0, 0));
  for (int extra = paired; extra < rank_count; ++extra) {
    Chunk& partner = values[static_cast<size_t>(extra - paired)];
    partner = doubling.reduce(doubling.input(extra, 0), partner, doubling.output(partner.rank, 0));
  }
  for (int distance = 1; distance < paired; distance *= 2)
    for (int rank = 0; rank < paired; ++rank)
      if ((rank & distance) == 0)
        exchange(doubling, values[static_cast<size_t>(rank)],
                 values[static_cast<size_t>(rank + distance)]);
  for (int extra = paired; extra < rank_count; ++extra)
    doubling.copy(values[static_cast<size_t>(extra - paired)], doubling.output(extra, 0));
  return doubling.lower();
}

AlgorithmCost cost(int rank_count) {
  const int rounds = round_count(rank_count);
  const int paired = paired_rank_count(rank_count);
  const int extra = rank_count - paired;
  const int messages = rounds + (extra > 0 ? 1 : 0);
  return {.hops = messages + (2 * extra > paired ? 1 : 0),
          .messages = messages,
          .recv_streams = messages,
          .bytes_moved = {messages, 1},
          .bytes_reduced = {messages, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = false};
}

}  // namespace

extern const Algorithm kAllReduceRecursiveDoubling;
const Algorithm kAllReduceRecursiveDoubling = {.name = "all_reduce_recursive_doubling",
                                               .collective = Collective::AllReduce,
                                               .reference = "Thakur, Rabenseifner and Gropp 2005",
                                               .rank_count_max = 4096,
                                               .channel_sets = 1,
                                               .reduces_in_rank_order = false,
                                               .cost = &cost,
                                               .build = &build};

}  // namespace mccl
