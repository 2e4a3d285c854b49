#include "ir/collective.h"

#include <algorithm>

#include "base/check.h"

namespace mccl {
namespace {

enum class Blocks : uint8_t { One, PerRank, OneAtRoot, PerRankAtRoot, ByContract };
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
    {Collective::Custom, Blocks::ByContract, Blocks::ByContract, Origins::One, true},
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

namespace {

int block_count_of(Blocks blocks, int rank, int rank_count) {
  switch (blocks) {
    case Blocks::One:
      return 1;
    case Blocks::PerRank:
      return rank_count;
    case Blocks::OneAtRoot:
      return rank == 0 ? 1 : 0;
    case Blocks::PerRankAtRoot:
      return rank == 0 ? rank_count : 0;
    case Blocks::ByContract:
      break;
  }
  MCCL_CHECK(false && "a custom collective's blocks are known to its program alone");
  return 0;
}

}  // namespace

int block_count(const Program& program, Buffer buffer, int rank) {
  MCCL_CHECK(buffer != Buffer::Scratch);
  if (program.collective == Collective::Custom) {
    const CustomRank& promise = program.contract[static_cast<size_t>(rank)];
    return buffer == Buffer::Input ? promise.input_chunk_count
                                   : static_cast<int>(promise.outputs.size());
  }
  const CollectiveRow& row = row_of(program.collective);
  return block_count_of(buffer == Buffer::Input ? row.input : row.output, rank,
                        program.rank_count());
}

int size_block_count(const Program& program) {
  if (program.collective != Collective::Custom)
    return size_block_count(program.collective, program.rank_count());
  int blocks = 0;
  for (int rank = 0; rank < program.rank_count(); ++rank)
    for (const Buffer buffer : {Buffer::Input, Buffer::Output})
      blocks = std::max(blocks, block_count(program, buffer, rank));
  return blocks;
}

int size_block_count(Collective collective, int rank_count) {
  const CollectiveRow& row = row_of(collective);
  return std::max(block_count_of(row.input, 0, rank_count),
                  block_count_of(row.output, 0, rank_count));
}

bool holds_input(const Program& program, int rank) {
  return program.collective != Collective::Broadcast || rank == 0;
}

int origin_block_count(const Program& program) {
  const int rank_count = program.rank_count();
  switch (row_of(program.collective).origins) {
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

int origin_block(const Program& program, Buffer buffer, int rank, int block) {
  const bool is_input = buffer == Buffer::Input;
  const int rank_count = program.rank_count();
  switch (row_of(program.collective).origins) {
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

int source_rank(const Program& program, int origin_block) {
  MCCL_CHECK(!is_reducing(program.collective));
  switch (row_of(program.collective).origins) {
    case Origins::One:
    case Origins::OfDestination:
      return 0;  // of a broadcast, of a scatter: the root
    case Origins::OfSource:
      return origin_block;
    case Origins::OfBoth:
      return origin_block / program.rank_count();
  }
  return 0;
}

std::optional<int> in_place_shift(const Program& program, int rank) {
  const CollectiveRow& row = row_of(program.collective);
  if (row.origins == Origins::OfBoth || row.output == Blocks::ByContract) return std::nullopt;
  // The larger buffer contains the smaller one as the rank's own block.
  if (row.output == Blocks::PerRank) return rank * program.chunk_count;
  if (row.input == Blocks::PerRank) return -rank * program.chunk_count;
  return 0;
}

}  // namespace mccl
