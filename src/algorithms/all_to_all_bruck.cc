// Bruck's all-to-all. A block that must travel d ranks to the right does so in the binary digits of
// d: in round k every rank packs all it holds whose way has bit k and sends it, as one message, to
// the rank 2^k to the right. After the last round everything is where it belongs, and is unpacked.
//
// Cost: ceil(log2(n)) messages, where the pairwise exchange sends n-1, and as many hops or one less
// (the last round may not need the one before); but a block is sent once for every bit of its way,
// about log2(n)/2 times: for small blocks among many ranks.
// Scratch for what is packed and received in all rounds. A rank forwards blocks of others, so all
// blocks must be equally long, which only the caller knows: never chosen by itself.
// Reference: Bruck et al. 1997, "Efficient algorithms for all-to-all communications".
// Golden case: test/golden/algorithms/all_to_all_bruck.txt.
#include <algorithm>
#include <bit>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/language.h"

namespace mccl {
namespace {

// Blocks that travel in a round; index = their whole way.
std::vector<int> ways_with_bit(int bit, int rank_count) {
  std::vector<int> ways;
  for (int way = bit; way < rank_count; ++way)
    if ((way & bit) != 0) ways.push_back(way);
  return ways;
}

// The blocks at every rank, by their way: before round k a block has done the bits below k.
using Held = std::vector<std::vector<Chunk>>;

// Packs and sends; returns the chunks of scratch that it took on every rank, from `first` on.
int run_round(ProgramBuilder& bruck, Held& held, int bit, int first) {
  const int rank_count = static_cast<int>(held.size());
  const std::vector<int> ways = ways_with_bit(bit, rank_count);
  const int count = static_cast<int>(ways.size());
  const int packed = first + count;
  std::vector<Chunk> sent;
  for (int rank = 0; rank < rank_count; ++rank) {
    const std::vector<Chunk>& blocks = held[static_cast<size_t>(rank)];
    if (count == 1) {
      sent.push_back(blocks[static_cast<size_t>(ways[0])]);
      continue;
    }
    for (int index = 0; index < count; ++index)
      bruck.copy(blocks[static_cast<size_t>(ways[static_cast<size_t>(index)])],
                 bruck.scratch(rank, packed + index));
    sent.push_back(bruck.scratch(rank, packed, count));
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    const int peer = (rank + bit) % rank_count;
    bruck.copy(sent[static_cast<size_t>(rank)], bruck.scratch(peer, first, count));
    for (int index = 0; index < count; ++index)
      held[static_cast<size_t>(peer)][static_cast<size_t>(ways[static_cast<size_t>(index)])] =
          bruck.scratch(peer, first + index);
  }
  return count == 1 ? 1 : 2 * count;
}

Result<Program> build(int rank_count) {
  ProgramBuilder bruck("all_to_all_bruck", Collective::AllToAll, rank_count, 1);
  bruck.serve(false, true);
  Held held(static_cast<size_t>(rank_count));
  for (int rank = 0; rank < rank_count; ++rank)
    for (int way = 0; way < rank_count; ++way)
      held[static_cast<size_t>(rank)].push_back(bruck.input(rank, (rank + way) % rank_count));
  int scratch = 0;
  for (int bit = 1; bit < rank_count; bit *= 2) scratch += run_round(bruck, held, bit, scratch);
  for (int rank = 0; rank < rank_count; ++rank)
    for (int way = 0; way < rank_count; ++way)
      bruck.copy(held[static_cast<size_t>(rank)][static_cast<size_t>(way)],
                 bruck.output(rank, (rank + rank_count - way) % rank_count));
  return bruck.lower();
}

AlgorithmCost cost(int rank_count) {
  AlgorithmCost cost = {.hops = 0,
                        .messages = 0,
                        .recv_streams = 0,
                        .message_chunks = 1,
                        .bytes_moved = {0, rank_count},
                        .bytes_reduced = {0, 1},
                        .scratch_bytes = {0, rank_count},
                        .is_pipelined = false};
  for (int bit = 1; bit < rank_count; bit *= 2) {
    const auto count = static_cast<int>(ways_with_bit(bit, rank_count).size());
    // Lower bits that a block of this round may have done before.
    const auto below = std::bit_width(static_cast<unsigned>(std::min(count, bit) - 1));
    cost.hops = std::max(cost.hops, 1 + static_cast<int>(below));
    ++cost.messages;
    ++cost.recv_streams;
    cost.message_chunks = std::max(cost.message_chunks, count);
    cost.bytes_moved.numerator += count;
    cost.scratch_bytes.numerator += count == 1 ? 1 : 2 * count;
  }
  return cost;
}

}  // namespace

extern const Algorithm kAllToAllBruck;
const Algorithm kAllToAllBruck = {.name = "all_to_all_bruck",
                                  .collective = Collective::AllToAll,
                                  .reference = "Bruck et al. 1997",
                                  .rank_count_max = 1024,
                                  .channel_sets = 1,
                                  .reduces_in_rank_order = true,
                                  .needs_equal_blocks = true,
                                  .cost = &cost,
                                  .build = &build};

}  // namespace mccl
