// What a seed draws: a world, calls of collectives and messages between ranks, and what they must
// leave in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/sim_group.h"

namespace mccl {

// A value of any dtype: floats are integers far below 2^53.
using Value = int64_t;

struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

struct SeedWorld {
  int rank_count = 2;
  sim::WorldOptions options;
  SimGroupOptions group;
  int communicator_count = 1;
  int operation_count = 1;
  int64_t element_max = 1;  // of one call
};

constexpr std::array kSeedTypes = {DataType::Float32, DataType::BFloat16, DataType::Int64};

struct SeedCall {
  size_t communicator = 0;
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  std::vector<int64_t> block_counts;  // by origin, see blocks_of()
  std::vector<Range> inputs;          // by rank, blocks one after the other
  std::vector<Range> outputs;         // by rank, likewise
  std::vector<TimeNs> post_at;        // by rank
};

// A message between two ranks.
struct SeedMessage {
  size_t communicator = 0;
  int from = 0;
  int to = 0;
  int64_t tag = 0;
  bool is_from_anybody = false;
  std::vector<int32_t> data;
  TimeNs send_at = 0;
  TimeNs receive_at = 0;
};

// The blocks of a rank's input or output, each by the number of its origin: the rank that has it
// before, the rank that has it afterwards, or for all_to_all from * ranks + to.
std::vector<int> blocks_of(const SeedCall& call, int rank_count, int rank, bool is_input);

struct SeedPlan {
  SeedWorld world;
  std::vector<SeedCall> calls;
  std::vector<SeedMessage> messages;
  int64_t arena_elements = 0;
  // What every arena holds at first and at the end, see arena_index().
  std::vector<std::vector<Value>> initial;
  std::vector<std::vector<Value>> final;
};

// The arena of a communicator, dtype and rank.
size_t arena_index(const SeedWorld& world, size_t communicator, DataType dtype, int rank);

SeedPlan draw_seed(uint64_t seed);

}  // namespace mccl
