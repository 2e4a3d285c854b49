#include "ir/collective.h"

#include <algorithm>

#include "base/check.h"

namespace mccl {
namespace {

enum class Blocks : uint8_t { One, PerRank, OneAtRoot, PerRankAtRoot };
enum class Origins : uint8_t { One, OfSource, OfDestination, OfBoth };

struct CollectiveRow {
  Collective collective;
  Blocks input;
  Blocks output;
  Origins origins;
  bool is_reducing;
};

constexpr CollectiveRow kRows[] = {
    {Collective::AllReduce, Blocks::One, Blocks::One, Origins::One, true},
    {Collective::AllGather, Blocks::One, Blocks::PerRank, Origins::OfSource, false},
    {Collective::Broadcast, Blocks::One, Blocks::One, Origins::One, false},
    {Collective::ReduceScatter, Blocks::PerRank, Blocks::One, Origins::OfDestination, true},
    {Collective::Reduce, Blocks::One, Blocks::OneAtRoot, Origins::One, true},
    {Collective::Gather, Blocks::One, Blocks::PerRankAtRoot, Origins::OfSource, false},
    {Collective::Scatter, Blocks::PerRankAtRoot, Blocks::One, Origins::OfDestination, false},
    {Collective::AllToAll, Blocks::PerRank, Blocks::PerRank, Origins::OfBoth, false},
};

const CollectiveRow& row_of(Collective collective) {
  const CollectiveRow& row = kRows[static_cast<size_t>(collective)];
  MCCL_CHECK(row.collective == collective);
  return row;
}

}  // namespace

bool is_reducing(Collective collective) {
  return row_of(collective).is_reducing;
}

int block_count(Collective collective, Buffer buffer, int rank, int rank_count) {
  MCCL_CHECK(buffer != Buffer::Scratch);
  const CollectiveRow& row = row_of(collective);
  switch (buffer == Buffer::Input ? row.input : row.output) {
    case Blocks::One:
      return 1;
    case Blocks::PerRank:
      return rank_count;
    case Blocks::OneAtRoot:
      return rank == 0 ? 1 : 0;
    case Blocks::PerRankAtRoot:
      return rank == 0 ? rank_count : 0;
  }
  return 0;
}

int size_block_count(Collective collective, int rank_count) {
  return std::max(block_count(collective, Buffer::Input, 0, rank_count),
                  block_count(collective, Buffer::Output, 0, rank_count));
}

bool holds_input(Collective collective, int rank) {
  return collective != Collective::Broadcast || rank == 0;
}

int origin_block_count(Collective collective, int rank_count) {
  switch (row_of(collective).origins) {
    case Origins::One:
      return 1;
    case Origins::OfSource:
    case Origins::OfDestination:
      return rank_count;
    case Origins::OfBoth:
      return rank_count * rank_count;
  }
  return 0;
}

int origin_block(Collective collective, Buffer buffer, int rank, int block, int rank_count) {
  const bool is_input = buffer == Buffer::Input;
  switch (row_of(collective).origins) {
    case Origins::One:
      return 0;
    case Origins::OfSource:
      return is_input ? rank : block;
    case Origins::OfDestination:
      return is_input ? block : rank;
    case Origins::OfBoth:
      return is_input ? rank * rank_count + block : block * rank_count + rank;
  }
  return 0;
}

int source_rank(Collective collective, int origin_block, int rank_count) {
  MCCL_CHECK(!is_reducing(collective));
  switch (row_of(collective).origins) {
    case Origins::One:
    case Origins::OfDestination:
      return 0;  // of a broadcast, of a scatter: the root
    case Origins::OfSource:
      return origin_block;
    case Origins::OfBoth:
      return origin_block / rank_count;
  }
  return 0;
}

std::optional<int> in_place_shift(const Program& program, int rank) {
  const CollectiveRow& row = row_of(program.collective);
  if (row.origins == Origins::OfBoth) return std::nullopt;
  // The larger buffer contains the smaller one as the rank's own block.
  if (row.output == Blocks::PerRank) return rank * program.chunk_count;
  if (row.input == Blocks::PerRank) return -rank * program.chunk_count;
  return 0;
}

}  // namespace mccl
