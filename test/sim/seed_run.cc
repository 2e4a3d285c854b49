// A seed decides everything, in a fixed order of draws: first the world, then the calls.
//
// Each rank has one arena per communicator and dtype, and a shadow of it that the calls are applied
// to one after the other, in ticket order, by ordinary loops over doubles and integers. Ranges are
// drawn per rank, so that in-place calls on one rank meet out-of-place calls on another, and calls
// overlap with earlier ones on some ranks only. Values are small integers, and sums are drawn only
// where no order of additions can round; so every result is known exactly.
#include "sim/seed_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/dtype.h"
#include "base/prng.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

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

struct SeedCall {
  size_t communicator = 0;
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  std::vector<int64_t> block_counts;
  std::vector<Range> inputs;    // by rank
  std::vector<Range> outputs;   // by rank
  std::vector<TimeNs> post_at;  // by rank
};

template <typename T, size_t N>
T pick(Prng& prng, const std::array<T, N>& choices) {
  return choices[prng.below(N)];
}

SeedWorld draw_world(uint64_t seed, Prng& prng) {
  SeedWorld world;
  world.rank_count = 2 + static_cast<int>(prng.below(7));
  sim::WorldOptions& options = world.options;
  options.seed = seed;
  options.latency_ns = pick<int64_t, 4>(prng, {0, 1'000, 30'000, 306'000});
  options.bytes_per_second = pick<int64_t, 3>(prng, {2'000'000, 1'238'000'000, 100'000'000'000});
  options.latency_jitter = pick<double, 3>(prng, {0, 1, 8});
  options.reads_late = prng.below(2) == 0;
  options.queue_bytes_max = pick<size_t, 3>(prng, {256, 16'384, 4 << 20});
  world.operation_count = 1 + static_cast<int>(prng.below(10));
  world.element_max = pick<int64_t, 5>(prng, {8, 200, 2'000, 20'000, 60'000});
  switch (prng.below(4)) {
    case 0:
      break;
    case 1:
      options.segment_bytes_min = 1;
      options.segment_bytes_max = 4'096;
      break;
    case 2:
      options.segment_bytes_min = 1;
      options.segment_bytes_max = 200;
      world.element_max = std::min<int64_t>(world.element_max, 2'000);
      break;
    case 3:  // one byte at a time: at most 1 KiB a call
      options.segment_bytes_min = options.segment_bytes_max = 1;
      world.operation_count = std::min(world.operation_count, 3);
      world.element_max = std::min<int64_t>(world.element_max, 64);
      break;
  }
  world.communicator_count = 1 + static_cast<int>(prng.below(2));
  const std::array<const char*, 5> algorithms = {"", "ring", "all_pairs", "tree", ""};
  const std::string algorithm = pick(prng, algorithms);
  if (!algorithm.empty()) world.group.settings.emplace_back("MCCL_ALGO", algorithm);
  world.group.settings.emplace_back("MCCL_LOG", "warning");
  const std::array<const char*, 3> profiles = {"loopback", "lan", "paper"};
  world.group.settings.emplace_back("MCCL_PROFILE", pick(prng, profiles));
  // The largest slices need grants; the others go under the standing ones.
  const std::array<PlanPortions, 5> portions = {
      {{64, 64}, {64, 320}, {1'024, 4'096}, {16'384, 65'536}, {196'608, 393'216}}};
  if (prng.below(4) != 0) world.group.portions = pick(prng, portions);
  return world;
}

// Draws the calls of a seed, and knows what every arena holds after each.
class CallSequence {
 public:
  CallSequence(const SeedWorld& world, Prng& prng) : world_(world), prng_(prng) {
    arena_elements_ = 2 * world.element_max + 2 * world.rank_count;
    const size_t shadows = static_cast<size_t>(world.communicator_count) * data_types().size() *
                           static_cast<size_t>(world.rank_count);
    for (size_t index = 0; index < shadows; ++index) {
      std::vector<Value>& values = shadows_.emplace_back();
      for (int64_t element = 0; element < arena_elements_; ++element)
        values.push_back(static_cast<Value>(prng.below(5)) - 2);
    }
    initial_ = shadows_;
    const size_t clocks =
        static_cast<size_t>(world.communicator_count) * static_cast<size_t>(world.rank_count);
    last_post_.assign(clocks, 0);
    for (int index = 0; index < world.operation_count; ++index) draw_call();
  }

  const std::vector<SeedCall>& calls() const { return calls_; }
  int64_t arena_elements() const { return arena_elements_; }
  size_t arena_index(size_t communicator, DataType dtype, int rank) const {
    return (communicator * data_types().size() + static_cast<size_t>(dtype)) *
               static_cast<size_t>(world_.rank_count) +
           static_cast<size_t>(rank);
  }
  const std::vector<std::vector<Value>>& initial() const { return initial_; }
  const std::vector<std::vector<Value>>& final() const { return shadows_; }

 private:
  int64_t draw_count() {
    const int64_t ranks = world_.rank_count;
    const std::array<int64_t, 8> small = {0, 1, 2, 3, ranks - 1, ranks, ranks + 1, 2 * ranks + 1};
    const int64_t count =
        prng_.below(3) == 0
            ? pick(prng_, small)
            : static_cast<int64_t>(prng_.below(static_cast<uint64_t>(world_.element_max) + 1));
    return std::min(count, world_.element_max);
  }

  Range draw_range(int64_t count) {
    // Often the beginning: the tensors of many calls are the same ones.
    const int64_t room = arena_elements_ - count;
    const int64_t first = prng_.below(2) == 0
                              ? 0
                              : static_cast<int64_t>(prng_.below(static_cast<uint64_t>(room) + 1));
    return {first, count};
  }

  void draw_call() {
    SeedCall call;
    call.communicator = prng_.below(static_cast<uint64_t>(world_.communicator_count));
    call.collective = pick(prng_, std::array{Collective::AllReduce, Collective::AllReduce,
                                             Collective::AllGather, Collective::Broadcast});
    call.dtype = pick(prng_, std::array{DataType::Float32, DataType::BFloat16, DataType::Int64});
    call.root = call.collective == Collective::Broadcast
                    ? static_cast<int>(prng_.below(static_cast<uint64_t>(world_.rank_count)))
                    : 0;
    draw_memory(call);
    call.op = draw_op(call);
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      TimeNs& last = last_post_[call.communicator * static_cast<size_t>(world_.rank_count) +
                                static_cast<size_t>(rank)];
      if (prng_.below(2) == 0)
        last += static_cast<TimeNs>(prng_.below(
            static_cast<uint64_t>(pick<int64_t, 3>(prng_, {1'000, 100'000, 3'000'000}))));
      call.post_at.push_back(last);
    }
    apply(call);
    calls_.push_back(std::move(call));
  }

  void draw_memory(SeedCall& call) {
    const bool is_gather = call.collective == Collective::AllGather;
    const int64_t count = draw_count();
    int64_t sum = 0;
    for (int block = 0; block < (is_gather ? world_.rank_count : 1); ++block) {
      // The blocks of a gather are together as long as the output of another call.
      const int64_t share = is_gather ? count / world_.rank_count : count;
      const bool is_uneven = is_gather && prng_.below(2) == 0;
      call.block_counts.push_back(
          is_uneven ? static_cast<int64_t>(prng_.below(static_cast<uint64_t>(share) + 1)) : share);
      sum += call.block_counts.back();
    }
    int64_t own_first = 0;
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      const int64_t own = is_gather ? call.block_counts[static_cast<size_t>(rank)] : count;
      const Range output = draw_range(sum);
      Range input = {output.first + own_first, own};
      const int64_t left = output.first;
      const int64_t right = arena_elements_ - output.first - sum;
      const bool is_in_place = call.collective == Collective::Broadcast || prng_.below(2) == 0 ||
                               std::max(left, right) < own;
      if (!is_in_place) input.first = right >= own ? arena_elements_ - own : 0;
      call.inputs.push_back(input);
      call.outputs.push_back(output);
      if (is_gather) own_first += own;
    }
  }

  // A sum only where every partial sum is exact in the dtype.
  ReduceOp draw_op(const SeedCall& call) {
    const ReduceOp op = pick(prng_, std::array{ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min,
                                               ReduceOp::Max, ReduceOp::Sum});
    if (call.collective != Collective::AllReduce) return ReduceOp::Sum;
    if (op == ReduceOp::Min || op == ReduceOp::Max) return op;
    Value largest = 0;
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      const std::vector<Value>& arena = shadow(call, rank);
      const Range& input = call.inputs[static_cast<size_t>(rank)];
      for (int64_t index = 0; index < input.count; ++index)
        largest = std::max(largest, std::abs(arena[static_cast<size_t>(input.first + index)]));
    }
    const int bits = call.dtype == DataType::BFloat16  ? 8
                     : call.dtype == DataType::Float32 ? 24
                                                       : 50;
    if (largest > (Value{1} << bits) / world_.rank_count) return ReduceOp::Max;
    // A float average is exact only where the sum divides; the agreement tests do the others.
    return op == ReduceOp::Avg && call.dtype != DataType::Int64 ? ReduceOp::Sum : op;
  }

  std::vector<Value>& shadow(const SeedCall& call, int rank) {
    return shadows_[arena_index(call.communicator, call.dtype, rank)];
  }

  void apply(const SeedCall& call) {
    std::vector<Value> result;
    const auto share = [&](int rank) {
      const Range& input = call.inputs[static_cast<size_t>(rank)];
      const auto begin = shadow(call, rank).begin() + input.first;
      return std::vector<Value>(begin, begin + input.count);
    };
    if (call.collective == Collective::Broadcast) {
      result = share(call.root);
    } else {
      for (int rank = 0; rank < world_.rank_count; ++rank) {
        const std::vector<Value> values = share(rank);
        if (rank == 0 || call.collective == Collective::AllGather) {
          result.insert(result.end(), values.begin(), values.end());
          continue;
        }
        for (size_t index = 0; index < values.size(); ++index) {
          Value& total = result[index];
          if (call.op == ReduceOp::Min)
            total = std::min(total, values[index]);
          else if (call.op == ReduceOp::Max)
            total = std::max(total, values[index]);
          else
            total += values[index];
        }
      }
      if (call.op == ReduceOp::Avg)
        for (Value& value : result) value /= world_.rank_count;
    }
    for (int rank = 0; rank < world_.rank_count; ++rank)
      std::copy(result.begin(), result.end(),
                shadow(call, rank).begin() + call.outputs[static_cast<size_t>(rank)].first);
  }

  const SeedWorld& world_;
  Prng& prng_;
  int64_t arena_elements_ = 0;
  std::vector<std::vector<Value>> initial_;
  std::vector<std::vector<Value>> shadows_;
  std::vector<TimeNs> last_post_;
  std::vector<SeedCall> calls_;
};

void store(DataType dtype, Value value, std::byte* element) {
  if (dtype == DataType::Int64) {
    std::memcpy(element, &value, sizeof(value));
    return;
  }
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  const auto half = static_cast<uint16_t>(bits >> 16);
  if (dtype == DataType::Float32)
    std::memcpy(element, &bits, sizeof(bits));
  else
    std::memcpy(element, &half, sizeof(half));
}

std::vector<std::byte> to_bytes(DataType dtype, const std::vector<Value>& values) {
  std::vector<std::byte> bytes(values.size() * dtype_bytes(dtype));
  for (size_t index = 0; index < values.size(); ++index)
    store(dtype, values[index], bytes.data() + index * dtype_bytes(dtype));
  return bytes;
}

class SeedRun {
 public:
  SeedRun(uint64_t seed, const std::shared_ptr<ProgramProver>& prover)
      : prng_(seed), world_(draw_world(seed, prng_)), sequence_(world_, prng_) {
    world_.group.prover = prover;
    for (int index = 0; index < world_.communicator_count; ++index)
      for (const DataTypeRow& row : data_types())
        for (int rank = 0; rank < world_.rank_count; ++rank)
          arenas_.push_back(to_bytes(row.dtype, sequence_.initial()[sequence_.arena_index(
                                                    static_cast<size_t>(index), row.dtype, rank)]));
  }

  SeedOutcome run() {
    SimGroup group(world_.rank_count, world_.options, world_.group);
    for (int index = 1; index < world_.communicator_count; ++index)
      group.add_communicator("second");
    const size_t total = sequence_.calls().size() * static_cast<size_t>(world_.rank_count);
    for (const SeedCall& call : sequence_.calls())
      for (int rank = 0; rank < world_.rank_count; ++rank)
        group.world().at(call.post_at[static_cast<size_t>(rank)], rank,
                         [this, &group, &call, rank] { post(group, call, rank); });
    const bool is_done = group.world().run([&] { return completed_ == total; });
    if (!is_done) fail(std::to_string(total - completed_) + " works never end");
    // Nothing may be left in any stream.
    group.world().run([] { return false; });
    for (int rank = 0; rank < world_.rank_count; ++rank)
      if (is_done && group.communicator(rank).stats().parked_bytes != 0)
        fail("rank " + std::to_string(rank) + " still holds messages");
    compare();
    return {failure_, digest_};
  }

 private:
  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }

  void mix(uint64_t value) { digest_ = (digest_ ^ value) * 0x9e3779b97f4a7c15ULL + 1; }

  std::byte* at(const SeedCall& call, int rank, int64_t element) {
    return arenas_[sequence_.arena_index(call.communicator, call.dtype, rank)].data() +
           static_cast<size_t>(element) * dtype_bytes(call.dtype);
  }

  void post(SimGroup& group, const SeedCall& call, int rank) {
    Communicator& communicator = group.communicator(rank, call.communicator);
    const Range& output = call.outputs[static_cast<size_t>(rank)];
    void* to = at(call, rank, output.first);
    const void* from = at(call, rank, call.inputs[static_cast<size_t>(rank)].first);
    CallOptions options;
    options.on_complete = [this, &group, rank](const Status& status) {
      if (!status.is_ok()) fail("rank " + std::to_string(rank) + ": " + status.to_string());
      mix(static_cast<uint64_t>(group.world().clock().now()) * 8 + static_cast<uint64_t>(rank));
      ++completed_;
    };
    Result<std::shared_ptr<Work>> work = Status(StatusCode::Internal, "not posted");
    if (call.collective == Collective::AllReduce) {
      work = communicator.all_reduce(from, to, output.count, call.dtype, call.op, options);
    } else if (call.collective == Collective::Broadcast) {
      work = communicator.broadcast(to, output.count, call.dtype, call.root, options);
    } else {
      std::vector<OutputBlock> blocks;
      int64_t first = output.first;
      for (const int64_t count : call.block_counts) {
        blocks.push_back({at(call, rank, first), count});
        first += count;
      }
      work = communicator.all_gather(from, std::move(blocks), call.dtype, options);
    }
    if (!work.is_ok()) fail("rank " + std::to_string(rank) + ": " + work.status().to_string());
  }

  void compare() {
    for (int index = 0; index < world_.communicator_count; ++index)
      for (const DataTypeRow& row : data_types())
        for (int rank = 0; rank < world_.rank_count; ++rank) {
          const size_t arena = sequence_.arena_index(static_cast<size_t>(index), row.dtype, rank);
          const std::vector<std::byte> expected = to_bytes(row.dtype, sequence_.final()[arena]);
          const std::vector<std::byte>& found = arenas_[arena];
          uint64_t word = 0;
          for (size_t byte = 0; byte < found.size(); byte += sizeof(word)) {
            std::memcpy(&word, found.data() + byte, std::min(sizeof(word), found.size() - byte));
            mix(word);
          }
          const auto differing = std::mismatch(found.begin(), found.end(), expected.begin()).first;
          if (differing != found.end())
            fail(std::string(row.name) + " element " +
                 std::to_string((differing - found.begin()) / static_cast<ptrdiff_t>(row.bytes)) +
                 " of rank " + std::to_string(rank) + ", communicator " + std::to_string(index) +
                 " is wrong");
        }
  }

  Prng prng_;
  SeedWorld world_;
  CallSequence sequence_;
  std::vector<std::vector<std::byte>> arenas_;
  size_t completed_ = 0;
  std::string failure_;
  uint64_t digest_ = 0;
};

}  // namespace

SeedOutcome run_seed(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
  return SeedRun(seed, prover).run();
}

}  // namespace mccl
