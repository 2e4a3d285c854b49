// Random programs that are collectives: what their statements compute, one after the other, is
// written down as a contract, and the lowered program must be proven to keep it, whatever fusion,
// lane keys and instances make of it. Then the reference executor and interleavings of its
// lanes must give the numbers that the contract promises.
//
//   random_contract_test                      the seeds of `make test`
//   random_contract_test --seeds=FIRST:COUNT  others: `make soak`, or one that failed
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/prng.h"
#include "ir/opcode.h"
#include "mccl/language.h"
#include "sim/seed_range.h"
#include "unit/lang/adversarial_run.h"
#include "unit/lang/program_text.h"
#include "verify/reference.h"
#include "verify/verify.h"

namespace mccl {
namespace {

constexpr int kScratchChunks = 5;

using Parts = std::vector<Contribution>;  // sorted

struct Value {
  Parts parts;
  std::string tree;  // how they were reduced; the sides of a pair are sorted
};

// What a random program does, for the table of what the seeds cover.
struct Features {
  bool has_cross_slot_reduce = false;  // the two operands lie at different places of their ranks
  bool has_wide_span = false;
  bool reuses_scratch = false;  // overwritten after it was read
  bool has_fused_step = false;
  bool has_manual_lanes = false;
  bool has_instances = false;
};

class RandomContract {
 public:
  explicit RandomContract(uint64_t seed) : prng_(seed) {
    ranks_ = 2 + pick(5);
    count_max_ = 1 + pick(3);
    is_manual_ = pick(2) == 0;
    is_fusion_on_ = pick(4) != 0;
    instances_ = 1 + pick(3);
    layout_ = pick(2) == 0 ? InstanceLayout::Interleaved : InstanceLayout::Blocks;
    inputs_ = 1 + pick(4);
    outputs_ = 1 + pick(4);
    for (int rank = 0; rank < ranks_; ++rank)
      for (int index = 0; index < inputs_; ++index)
        values_[{rank, Buffer::Input, index}] = {
            {{rank, index}}, std::to_string(rank) + ":" + std::to_string(index)};
    const int statements = 4 + pick(30);
    for (int tries = 0; tries < 500 && static_cast<int>(lines_.size()) < statements; ++tries)
      try_statement();
    // A program has to promise something.
    if (!has_promise())
      add({{0, Buffer::Input, 0, 1}, {0, Buffer::Input, 0, 0}, {1, Buffer::Output, 0, 1}});
  }

  Result<Program> lower() const {
    ProgramBuilder builder("random", contract());
    builder.set_fusion(is_fusion_on_);
    builder.set_instances(instances_, layout_);
    for (const Line& line : lines_) {
      const Placement placement = place(line);
      if (line.staying.count == 0)
        builder.copy(chunk(line.moving), chunk(line.result), placement);
      else
        builder.reduce(chunk(line.moving), chunk(line.staying), chunk(line.result), placement);
    }
    return builder.lower();
  }

  // The contract in chunks that are cut into one part per instance, whatever the layout: what a
  // chunk promises, each of its parts promises of the same part.
  std::vector<CustomRank> cut_contract() const {
    std::vector<CustomRank> cut = contract();
    for (CustomRank& promise : cut) {
      promise.input_chunk_count *= instances_;
      std::vector<Parts> outputs;
      for (const Parts& wanted : promise.outputs)
        for (int part = 0; part < instances_; ++part) {
          outputs.push_back(wanted);
          for (Contribution& one : outputs.back()) one.index = one.index * instances_ + part;
        }
      promise.outputs = std::move(outputs);
    }
    return cut;
  }

  Features features(const Program& program) const {
    Features found = features_;
    found.has_manual_lanes = is_manual_;
    found.has_instances = instances_ > 1;
    for (const RankProgram& rank : program.ranks)
      for (const Lane& lane : rank.lanes)
        for (const Step& step : lane.steps)
          found.has_fused_step |= opcode_row(step.opcode).receives && opcode_row(step.opcode).sends;
    return found;
  }

 private:
  struct Line {
    Span moving;
    Span staying;  // count 0: a copy
    Span result;
  };

  int pick(int bound) { return static_cast<int>(prng_.below(static_cast<uint64_t>(bound))); }
  static Chunk chunk(const Span& span) { return {span.rank, span.buffer, span.index, span.count}; }

  Span pick_span(Buffer buffer, int count) {
    const int size = buffer == Buffer::Input    ? inputs_
                     : buffer == Buffer::Output ? outputs_
                                                : kScratchChunks;
    count = std::min(count, size);
    return {pick(ranks_), buffer, pick(size - count + 1), count};
  }

  // One lane per pair of a rank's peers, so that no key asks for two peers of one direction.
  Placement place(const Line& line) const {
    if (!is_manual_) return {};
    const int from = line.moving.rank;
    const int to = line.result.rank;
    if (from == to) return {.channel = -1, .send_lane = 100, .recv_lane = -1};
    return {.channel = -1, .send_lane = to, .recv_lane = from};
  }

  const Value* find(const Span& span, int offset) const {
    const auto found = values_.find({span.rank, span.buffer, span.index + offset});
    return found == values_.end() ? nullptr : &found->second;
  }

  static bool meet(const Span& first, const Span& second) {
    return first.rank == second.rank && first.buffer == second.buffer &&
           first.index < second.index + second.count && second.index < first.index + first.count;
  }

  void try_statement() {
    const int count = 1 + pick(count_max_);
    const Span moving = pick_span(static_cast<Buffer>(pick(3)), count);
    const Span result = pick_span(pick(2) == 0 ? Buffer::Output : Buffer::Scratch, moving.count);
    if (result.count != moving.count) return;
    Line line{moving, {0, Buffer::Input, 0, 0}, result};
    const int kind = pick(5);
    if (kind == 0) line.staying = pick_span(static_cast<Buffer>(pick(3)), moving.count);
    if (kind >= 1 && kind <= 2) line.staying = result;
    if (line.staying.count != 0) line.staying.rank = result.rank;
    if (is_legal(line)) add(line);
  }

  bool is_legal(const Line& line) const {
    const bool is_copy = line.staying.count == 0;
    if (meet(line.moving, line.result) && (is_copy || line.moving != line.result)) return false;
    for (int offset = 0; offset < line.moving.count; ++offset) {
      const Value* moving = find(line.moving, offset);
      if (moving == nullptr) return false;
      if (is_copy) continue;
      const Value* staying = find(line.staying, offset);
      if (staying == nullptr) return false;
      Parts both;
      std::set_intersection(moving->parts.begin(), moving->parts.end(), staying->parts.begin(),
                            staying->parts.end(), std::back_inserter(both));
      if (!both.empty()) return false;
    }
    if (is_copy) return true;
    return line.staying.count == line.moving.count && !meet(line.moving, line.staying) &&
           (!meet(line.staying, line.result) || line.staying == line.result);
  }

  void add(const Line& line) {
    lines_.push_back(line);
    const bool is_copy = line.staying.count == 0;
    std::vector<Value> results;
    for (int offset = 0; offset < line.moving.count; ++offset) {
      Value value = *find(line.moving, offset);
      if (!is_copy) {
        const Value& staying = *find(line.staying, offset);
        value.parts.insert(value.parts.end(), staying.parts.begin(), staying.parts.end());
        std::sort(value.parts.begin(), value.parts.end());
        const auto& [first, second] = std::minmax(value.tree, staying.tree);
        value.tree = "(" + first + "+" + second + ")";
      }
      results.push_back(std::move(value));
    }
    for (const Span* read : {&line.moving, &line.staying})
      for (int offset = 0; offset < read->count; ++offset)
        was_read_[{read->rank, read->buffer, read->index + offset}] = true;
    for (int offset = 0; offset < line.result.count; ++offset) {
      const Place place{line.result.rank, line.result.buffer, line.result.index + offset};
      features_.reuses_scratch |= line.result.buffer == Buffer::Scratch && was_read_[place];
      was_read_[place] = false;
      values_[place] = results[static_cast<size_t>(offset)];
    }
    features_.has_wide_span |= line.moving.count > 1;
    features_.has_cross_slot_reduce |=
        !is_copy && line.moving.rank != line.staying.rank &&
        (line.moving.buffer != line.staying.buffer || line.moving.index != line.staying.index);
  }

  bool has_promise() const {
    return std::any_of(values_.begin(), values_.end(), [](const auto& value) {
      return std::get<1>(value.first) == Buffer::Output;
    });
  }

  std::vector<CustomRank> contract() const {
    std::vector<CustomRank> contract(static_cast<size_t>(ranks_));
    std::map<Parts, std::string> trees;  // the first tree of each promise: others differ in bits
    for (int rank = 0; rank < ranks_; ++rank) {
      CustomRank& promise = contract[static_cast<size_t>(rank)];
      promise.input_chunk_count = inputs_;
      for (int index = 0; index < outputs_; ++index) {
        promise.outputs.emplace_back();
        const Value* value = find({rank, Buffer::Output, index, 1}, 0);
        if (value != nullptr &&
            trees.emplace(value->parts, value->tree).first->second == value->tree)
          promise.outputs.back() = value->parts;
      }
    }
    return contract;
  }

  using Place = std::tuple<int, Buffer, int>;

  Prng prng_;
  int ranks_ = 2;
  int inputs_ = 1;
  int outputs_ = 1;
  int count_max_ = 1;
  bool is_manual_ = false;
  bool is_fusion_on_ = true;
  int instances_ = 1;
  InstanceLayout layout_ = InstanceLayout::Interleaved;
  std::vector<Line> lines_;
  std::map<Place, Value> values_;
  std::map<Place, bool> was_read_;
  Features features_;
};

uint64_t input_value(int rank, int index) {
  return Prng(static_cast<uint64_t>(1 + rank * 1000 + index)).next();
}

// What the contract says, as numbers; nothing where it says nothing.
std::vector<std::optional<uint64_t>> promised(const Program& program) {
  std::vector<std::optional<uint64_t>> values;
  for (const CustomRank& promise : program.contract)
    for (const Parts& parts : promise.outputs) {
      std::optional<uint64_t>& value = values.emplace_back();
      if (!parts.empty()) value = 0;
      for (const Contribution& part : parts) *value += input_value(part.rank, part.index);
    }
  return values;
}

std::string compare(const Program& program, const std::vector<uint64_t>& found, const char* who) {
  const std::vector<std::optional<uint64_t>> wanted = promised(program);
  if (wanted.size() != found.size()) return std::string(who) + " has other outputs";
  for (size_t index = 0; index < wanted.size(); ++index)
    if (wanted[index] && *wanted[index] != found[index])
      return std::string(who) + ": output number " + std::to_string(index) + " is wrong";
  return {};
}

std::string run_adversaries(const Program& program, uint64_t seed) {
  for (uint64_t schedule = 0; schedule < 3; ++schedule) {
    Memory memory(program, false);
    for (int rank = 0; rank < program.rank_count(); ++rank)
      for (int index = 0; index < buffer_chunk_count(program, rank, Buffer::Input); ++index)
        memory.at(rank, Buffer::Input, index) = input_value(rank, index);
    const std::string stuck = run_adversarially(program, memory, seed * 3 + schedule);
    if (!stuck.empty()) return stuck;
    const std::string text = compare(program, memory.outputs(), "an interleaving");
    if (!text.empty()) return text;
  }
  return {};
}

std::string run_reference(const Program& program) {
  ReferenceCall call{.dtype = DataType::Int64, .block_counts = {1}, .inputs = {}};
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    Bytes bytes;
    for (int index = 0; index < buffer_chunk_count(program, rank, Buffer::Input); ++index) {
      const uint64_t value = input_value(rank, index);
      const auto* raw = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), raw, raw + sizeof value);
    }
    call.inputs.push_back(std::move(bytes));
  }
  const Result<std::vector<Bytes>> outputs = execute_reference(program, call);
  if (!outputs.is_ok()) return outputs.status().to_string();
  std::vector<uint64_t> values;
  for (const Bytes& bytes : outputs.value())
    for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
      uint64_t& value = values.emplace_back();
      std::memcpy(&value, bytes.data() + offset, sizeof value);
    }
  return compare(program, values, "the reference executor");
}

class Coverage {
 public:
  void add(const Features& features) {
    const std::lock_guard lock(mutex_);
    ++programs_;
    const int flags[] = {features.has_cross_slot_reduce, features.has_wide_span,
                         features.reuses_scratch,        features.has_fused_step,
                         features.has_manual_lanes,      features.has_instances};
    for (size_t index = 0; index < std::size(flags); ++index) counts_[index] += flags[index];
  }
  void print() const {
    for (size_t index = 0; index < std::size(kNames); ++index)
      std::printf("%-22s %5.1f %%\n", kNames[index], 100.0 * counts_[index] / programs_);
  }
  // Per cent of the programs that have the rarest feature.
  int least_percent() const {
    return 100 * *std::min_element(std::begin(counts_), std::end(counts_)) / programs_;
  }

 private:
  static constexpr const char* kNames[] = {"cross-slot reduce", "count above 1", "scratch reused",
                                           "fused step",        "manual lanes",  "instances"};
  int counts_[std::size(kNames)] = {};
  int programs_ = 0;
  std::mutex mutex_;
};

std::string check_seed(uint64_t seed, Coverage& coverage) {
  const RandomContract random(seed);
  const Result<Program> lowered = random.lower();
  if (!lowered.is_ok()) return lowered.status().to_string();
  const Program& program = lowered.value();
  coverage.add(random.features(program));
  if (program.contract != random.cut_contract()) return "instances changed the contract";
  std::string text;
  for (const Finding& finding : verify(program).findings) text += finding.text + "; ";
  if (text.empty()) text = run_reference(program);
  if (text.empty()) text = run_adversaries(program, seed);
  return text.empty() ? text : text + "\n" + program_text(program);
}

}  // namespace
}  // namespace mccl

int main(int argc, char** argv) {
  using namespace mccl;
  return run_seed_tests(
      argc, argv, "RandomContracts", "AreKept", 2'000, [](const SeedRange& range) {
        Coverage coverage;
        check_seeds(range, [&](uint64_t seed, const auto&) { return check_seed(seed, coverage); });
        coverage.print();
        EXPECT_GE(coverage.least_percent(), 10);
      });
}
