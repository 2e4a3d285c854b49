// A seed decides everything, in a fixed order of draws: first the world, then the calls.
//
// Each rank has one arena per communicator and dtype, and a shadow of it that the calls are applied
// to one after the other, in ticket order, by ordinary loops over doubles and integers. Ranges are
// drawn per rank, so that in-place calls on one rank meet out-of-place calls on another, and calls
// overlap with earlier ones on some ranks only. Values are small integers, and sums are drawn only
// where no order of additions can round; so every result is known exactly. Messages between two
// ranks have memory of their own, because nothing orders them against collectives.
#include "sim/seed_calls.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/dtype.h"
#include "base/prng.h"

namespace mccl {
namespace {

bool reduces(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::ReduceScatter ||
         collective == Collective::Reduce;
}

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
  const std::array<const char*, 5> algorithms = {"", "ring", "all_pairs", "tree", "direct"};
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
    const size_t shadows = static_cast<size_t>(world.communicator_count) * kSeedTypes.size() *
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
    for (int index = 0; index < world.operation_count; ++index) {
      draw_call();
      if (prng.below(2) == 0) draw_message();
    }
  }

  SeedPlan take() {
    return {world_,          std::move(calls_),   std::move(messages_),
            arena_elements_, std::move(initial_), std::move(shadows_)};
  }

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

  TimeNs draw_post(size_t communicator, int rank) {
    TimeNs& last = last_post_[communicator * static_cast<size_t>(world_.rank_count) +
                              static_cast<size_t>(rank)];
    if (prng_.below(2) == 0)
      last += static_cast<TimeNs>(
          prng_.below(static_cast<uint64_t>(pick<int64_t, 3>(prng_, {1'000, 100'000, 3'000'000}))));
    return last;
  }

  int draw_rank() {
    return static_cast<int>(prng_.below(static_cast<uint64_t>(world_.rank_count)));
  }

  void draw_call() {
    SeedCall call;
    call.communicator = prng_.below(static_cast<uint64_t>(world_.communicator_count));
    call.collective = prng_.below(3) == 0
                          ? Collective::AllReduce
                          : all_collectives()[prng_.below(all_collectives().size())];
    call.dtype = pick(prng_, kSeedTypes);
    call.root = draw_rank();
    draw_counts(call);
    draw_memory(call);
    call.op = draw_op(call);
    for (int rank = 0; rank < world_.rank_count; ++rank)
      call.post_at.push_back(draw_post(call.communicator, rank));
    apply(call);
    calls_.push_back(std::move(call));
  }

  void draw_message() {
    SeedMessage message;
    message.communicator = prng_.below(static_cast<uint64_t>(world_.communicator_count));
    message.from = draw_rank();
    message.to = (message.from + 1 +
                  static_cast<int>(prng_.below(static_cast<uint64_t>(world_.rank_count - 1)))) %
                 world_.rank_count;
    message.is_from_anybody = prng_.below(4) == 0;
    // A receive from anybody has a tag of its own, or another message could be the first.
    message.tag = message.is_from_anybody ? 100 + static_cast<int64_t>(messages_.size())
                                          : static_cast<int64_t>(prng_.below(3));
    message.data.resize(static_cast<size_t>(draw_count()));
    for (int32_t& value : message.data) value = static_cast<int32_t>(prng_.next());
    message.send_at = draw_post(message.communicator, message.from);
    message.receive_at = draw_post(message.communicator, message.to);
    messages_.push_back(std::move(message));
  }

  // Together, the blocks of one rank are as long as the memory of another call.
  void draw_counts(SeedCall& call) {
    const int64_t count = draw_count();
    const int ranks = world_.rank_count;
    const bool has_uneven_form = call.collective == Collective::AllGather ||
                                 call.collective == Collective::ReduceScatter ||
                                 call.collective == Collective::AllToAll;
    const bool is_uneven = has_uneven_form && prng_.below(2) == 0;
    const bool is_one_block = call.collective == Collective::AllReduce ||
                              call.collective == Collective::Broadcast ||
                              call.collective == Collective::Reduce;
    const int origins = is_one_block                              ? 1
                        : call.collective == Collective::AllToAll ? ranks * ranks
                                                                  : ranks;
    const int64_t share = is_one_block ? count : count / ranks;
    for (int origin = 0; origin < origins; ++origin)
      call.block_counts.push_back(
          is_uneven ? static_cast<int64_t>(prng_.below(static_cast<uint64_t>(share) + 1)) : share);
  }

  int64_t elements_of(const SeedCall& call, int rank, bool is_input) const {
    int64_t sum = 0;
    for (const int block : blocks_of(call, world_.rank_count, rank, is_input))
      sum += call.block_counts[static_cast<size_t>(block)];
    return sum;
  }

  // Where the smaller of a rank's buffers lies in the larger one in place, or -1.
  int64_t own_place(const SeedCall& call, int rank) {
    if (call.collective == Collective::AllToAll) return -1;
    const std::vector<int> inputs = blocks_of(call, world_.rank_count, rank, true);
    const std::vector<int> outputs = blocks_of(call, world_.rank_count, rank, false);
    if (inputs.empty() || outputs.empty()) return -1;
    const std::vector<int>& larger = inputs.size() > outputs.size() ? inputs : outputs;
    const int own = (inputs.size() > outputs.size() ? outputs : inputs).front();
    int64_t place = 0;
    for (const int block : larger) {
      if (block == own) break;
      place += call.block_counts[static_cast<size_t>(block)];
    }
    return place;
  }

  void draw_memory(SeedCall& call) {
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      const int64_t input_count = elements_of(call, rank, true);
      const int64_t output_count = elements_of(call, rank, false);
      const bool is_output_larger = output_count >= input_count;
      const Range large = draw_range(std::max(input_count, output_count));
      Range small = {large.first, std::min(input_count, output_count)};
      const int64_t right = arena_elements_ - large.first - large.count;
      const int64_t own = own_place(call, rank);
      const bool is_in_place =
          own >= 0 && (call.collective == Collective::Broadcast || prng_.below(2) == 0);
      if (is_in_place)
        small.first = large.first + own;
      else
        small.first = right >= small.count ? arena_elements_ - small.count : 0;
      // No room beside: in place where that exists, else at the beginning of a call at the end.
      Range large_moved = large;
      if (!is_in_place && right < small.count && large.first < small.count)
        large_moved.first = arena_elements_ - large.count;
      call.inputs.push_back(is_output_larger ? small : large_moved);
      call.outputs.push_back(is_output_larger ? large_moved : small);
    }
  }

  // A sum only where every partial sum is exact in the dtype.
  ReduceOp draw_op(const SeedCall& call) {
    const ReduceOp op = pick(prng_, std::array{ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min,
                                               ReduceOp::Max, ReduceOp::Sum});
    if (!reduces(call.collective)) return ReduceOp::Sum;
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
    return shadows_[arena_index(world_, call.communicator, call.dtype, rank)];
  }

  void apply(const SeedCall& call) {
    std::vector<std::vector<Value>> values(call.block_counts.size());
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      if (call.collective == Collective::Broadcast && rank != call.root) continue;
      const std::vector<Value>& arena = shadow(call, rank);
      auto next = arena.begin() + call.inputs[static_cast<size_t>(rank)].first;
      for (const int block : blocks_of(call, world_.rank_count, rank, true)) {
        const int64_t count = call.block_counts[static_cast<size_t>(block)];
        combine(call, values[static_cast<size_t>(block)], {next, next + count});
        next += count;
      }
    }
    if (reduces(call.collective) && call.op == ReduceOp::Avg)
      for (std::vector<Value>& block : values)
        for (Value& value : block) value /= world_.rank_count;
    for (int rank = 0; rank < world_.rank_count; ++rank) {
      auto next = shadow(call, rank).begin() + call.outputs[static_cast<size_t>(rank)].first;
      for (const int block : blocks_of(call, world_.rank_count, rank, false)) {
        const std::vector<Value>& result = values[static_cast<size_t>(block)];
        next = std::copy(result.begin(), result.end(), next);
      }
    }
  }

  static void combine(const SeedCall& call, std::vector<Value>& total,
                      const std::vector<Value>& values) {
    if (total.empty()) {
      total = values;
      return;
    }
    for (size_t index = 0; index < values.size(); ++index) {
      Value& value = total[index];
      if (call.op == ReduceOp::Min)
        value = std::min(value, values[index]);
      else if (call.op == ReduceOp::Max)
        value = std::max(value, values[index]);
      else
        value += values[index];
    }
  }

  const SeedWorld& world_;
  Prng& prng_;
  int64_t arena_elements_ = 0;
  std::vector<std::vector<Value>> initial_;
  std::vector<std::vector<Value>> shadows_;
  std::vector<TimeNs> last_post_;
  std::vector<SeedCall> calls_;
  std::vector<SeedMessage> messages_;
};

}  // namespace

std::vector<int> blocks_of(const SeedCall& call, int rank_count, int rank, bool is_input) {
  const bool is_root = rank == call.root;
  std::vector<int> all(static_cast<size_t>(rank_count));
  std::iota(all.begin(), all.end(), 0);
  switch (call.collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
      return {0};
    case Collective::Reduce:
      return is_input || is_root ? std::vector<int>{0} : std::vector<int>();
    case Collective::AllGather:
      return is_input ? std::vector<int>{rank} : all;
    case Collective::Gather:
      if (is_input) return {rank};
      return is_root ? all : std::vector<int>();
    case Collective::ReduceScatter:
      return is_input ? all : std::vector<int>{rank};
    case Collective::Scatter:
      if (!is_input) return {rank};
      return is_root ? all : std::vector<int>();
    case Collective::AllToAll:
      for (int& block : all)
        block = is_input ? rank * rank_count + block : block * rank_count + rank;
      return all;
    case Collective::Custom:
      break;
  }
  return {};
}

size_t arena_index(const SeedWorld& world, size_t communicator, DataType dtype, int rank) {
  const auto type = std::find(kSeedTypes.begin(), kSeedTypes.end(), dtype) - kSeedTypes.begin();
  return (communicator * kSeedTypes.size() + static_cast<size_t>(type)) *
             static_cast<size_t>(world.rank_count) +
         static_cast<size_t>(rank);
}

SeedPlan draw_seed(uint64_t seed) {
  Prng prng(seed);
  const SeedWorld world = draw_world(seed, prng);
  return CallSequence(world, prng).take();
}

}  // namespace mccl
