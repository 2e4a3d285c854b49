// Random builder programs: the lowered program must compute what the statements compute one after
// the other, under the reference executor and under any interleaving, and the verifier must find
// nothing but what is wrong with a random program as a collective.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/dtype.h"
#include "base/prng.h"
#include "ir/collective.h"
#include "mccl/language.h"
#include "unit/lang/adversarial_run.h"
#include "unit/lang/program_text.h"
#include "verify/reference.h"
#include "verify/verify.h"

namespace mccl {
namespace {

constexpr uint64_t kProgramCount = 2000;
constexpr int kScratchChunks = 4;

struct Written {
  std::vector<Span> sources;
  Span destination;
};

using Place = std::tuple<int, Buffer, int>;

// Writes random legal statements into a builder, and remembers them.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : prng_(seed) {
    shape_.name = "random";
    const auto collectives = all_collectives();
    shape_.collective =
        pick(3) == 0 ? Collective::AllReduce
                     : collectives[static_cast<size_t>(pick(static_cast<int>(collectives.size())))];
    shape_.chunk_count = 2 + pick(2);
    shape_.ranks.resize(static_cast<size_t>(2 + pick(3)));
    const int claim = pick(4);
    const bool has_in_place = in_place_shift(shape_, 0).has_value();
    shape_.in_place = has_in_place && claim != 0;
    shape_.out_of_place = !has_in_place || claim != 1;
    uses_channels_ = pick(4) == 0;
    count_max_ = 1 + pick(2);
    builder_.emplace(shape_.name, shape_.collective, shape_.rank_count(), shape_.chunk_count);
    builder_->serve(shape_.in_place, shape_.out_of_place);
    for (int rank = 0; rank < shape_.rank_count(); ++rank) mark_input_written(rank);
    const int statement_count = 3 + pick(28);
    for (int tries = 0; tries < 400 && static_cast<int>(statements_.size()) < statement_count;
         ++tries)
      try_statement();
    for (int rank = 0; rank < shape_.rank_count(); ++rank) fill_output(rank);
  }

  Result<Program> lower() { return builder_->lower(); }

  void run_statements(Memory& memory) const {
    for (const Written& statement : statements_) {
      std::vector<uint64_t> value = memory.load(statement.sources[0]);
      for (size_t source = 1; source < statement.sources.size(); ++source) {
        const std::vector<uint64_t> other = memory.load(statement.sources[source]);
        for (size_t index = 0; index < value.size(); ++index) value[index] += other[index];
      }
      memory.store(statement.destination, value);
    }
  }

 private:
  int pick(int bound) { return static_cast<int>(prng_.below(static_cast<uint64_t>(bound))); }

  void mark_input_written(int rank) {
    if (!holds_input(shape_, rank)) return;
    for (int index = 0; index < chunks_of(rank, Buffer::Input); ++index) {
      written_.insert({rank, Buffer::Input, index});
      const int alias = input_alias(shape_, rank, index);
      if (!shape_.out_of_place && alias >= 0) written_.insert({rank, Buffer::Output, alias});
    }
  }

  int chunks_of(int rank, Buffer buffer) const {
    if (buffer == Buffer::Scratch) return kScratchChunks;
    return buffer_chunk_count(shape_, rank, buffer);
  }

  Span pick_span(int rank, int count) {
    const auto buffer = static_cast<Buffer>(pick(3));
    const int chunks = chunks_of(rank, buffer);
    if (chunks < count) return {rank, Buffer::Scratch, 0, count};
    return {rank, buffer, pick(chunks - count + 1), count};
  }

  // One-chunk places under a view; in place an input is the output it aliases.
  std::vector<Place> places(const Span& span, bool in_place) const {
    std::vector<Place> found;
    for (int index = span.index; index < span.index + span.count; ++index) {
      const bool may_alias = in_place && span.buffer == Buffer::Input;
      const int alias = may_alias ? input_alias(shape_, span.rank, index) : -1;
      if (alias >= 0)
        found.emplace_back(span.rank, Buffer::Output, alias);
      else
        found.emplace_back(span.rank, span.buffer, index);
    }
    return found;
  }

  bool overlap(const Span& first, const Span& second, bool in_place) const {
    for (const Place& one : places(first, in_place))
      for (const Place& other : places(second, in_place))
        if (one == other) return true;
    return false;
  }

  bool may_meet(const Span& first, const Span& second, bool may_be_equal) const {
    if (overlap(first, second, false) && !(may_be_equal && first == second)) return false;
    return !shape_.in_place || !overlap(first, second, true) ||
           places(first, true) == places(second, true);
  }

  bool is_written(const Span& span) const {
    for (const Place& place : places(span, false))
      if (written_.count(place) == 0) return false;
    return true;
  }

  // Input may be written where it is output in every call.
  bool may_write(const Span& span) const {
    if (span.buffer != Buffer::Input) return true;
    for (const Place& place : places(span, true))
      if (shape_.out_of_place || std::get<1>(place) == Buffer::Input) return false;
    return true;
  }

  bool is_legal(const Written& statement) const {
    if (!may_write(statement.destination)) return false;
    const bool is_copy = statement.sources.size() == 1;
    for (const Span& source : statement.sources)
      if (!is_written(source) || !may_meet(source, statement.destination, !is_copy)) return false;
    return is_copy || may_meet(statement.sources[0], statement.sources[1], false);
  }

  void try_statement() {
    const int count = 1 + pick(count_max_);
    const int to = pick(shape_.rank_count());
    const int from = pick(shape_.rank_count());
    Written statement{{pick_span(from, count)}, pick_span(to, count)};
    Placement placement;
    if (uses_channels_) placement.channel = pick(3) - 1;
    const int kind = pick(6);
    if (kind >= 3) statement.sources.push_back(pick_span(to, count));
    if (kind >= 4) statement.destination = statement.sources[1];
    if (kind == 5 && from == to) statement.sources.push_back(pick_span(to, count));
    if (!is_legal(statement)) return;
    const Chunk destination = chunk(statement.destination);
    if (statement.sources.size() == 3) {
      if (!may_meet(statement.sources[0], statement.sources[2], true)) return;
      builder_->fold(
          {chunk(statement.sources[0]), chunk(statement.sources[1]), chunk(statement.sources[2])},
          {destination});
    } else if (statement.sources.size() == 2) {
      builder_->reduce(chunk(statement.sources[0]), chunk(statement.sources[1]), destination,
                       placement);
    } else {
      builder_->copy(chunk(statement.sources[0]), destination, placement);
    }
    add(statement);
  }

  void add(const Written& statement) {
    for (const Place& place : places(statement.destination, false)) written_.insert(place);
    statements_.push_back(statement);
  }

  // The reference executor wants every output written.
  void fill_output(int rank) {
    // Rank 0 always has an input.
    const int source = written_.count({rank, Buffer::Input, 0}) != 0 ? rank : 0;
    for (int index = 0; index < chunks_of(rank, Buffer::Output); ++index) {
      const Written statement{{{source, Buffer::Input, 0, 1}}, {rank, Buffer::Output, index, 1}};
      if (is_written(statement.destination)) continue;
      builder_->copy(chunk(statement.sources[0]), chunk(statement.destination));
      add(statement);
    }
  }

  static Chunk chunk(const Span& span) { return {span.rank, span.buffer, span.index, span.count}; }

  Prng prng_;
  Program shape_;
  bool uses_channels_ = false;
  int count_max_ = 1;
  std::optional<ProgramBuilder> builder_;
  std::set<Place> written_;
  std::vector<Written> statements_;
};

uint64_t input_value(int rank, int index) {
  return Prng(static_cast<uint64_t>(1 + rank * 100 + index)).next();
}

void load_inputs(const Program& program, Memory& memory) {
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    if (!holds_input(program, rank)) continue;
    for (int index = 0; index < buffer_chunk_count(program, rank, Buffer::Input); ++index)
      memory.at(rank, Buffer::Input, index) = input_value(rank, index);
  }
}

std::vector<uint64_t> run_reference(const Program& program, bool in_place) {
  ReferenceCall call;
  call.dtype = DataType::Int64;
  call.in_place = in_place;
  call.block_counts.assign(static_cast<size_t>(origin_block_count(program)), program.chunk_count);
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const int chunks = buffer_chunk_count(program, rank, Buffer::Input);
    Bytes bytes(static_cast<size_t>(chunks) * sizeof(uint64_t));
    for (int index = 0; index < chunks; ++index) {
      const uint64_t value = input_value(rank, index);
      std::memcpy(bytes.data() + static_cast<size_t>(index) * sizeof value, &value, sizeof value);
    }
    call.inputs.push_back(std::move(bytes));
  }
  const Result<std::vector<Bytes>> result = execute_reference(program, call);
  EXPECT_TRUE(result.is_ok()) << result.status().to_string();
  std::vector<uint64_t> values;
  if (!result.is_ok()) return values;
  for (const Bytes& bytes : result.value())
    for (size_t offset = 0; offset < bytes.size(); offset += sizeof(uint64_t)) {
      uint64_t value = 0;
      std::memcpy(&value, bytes.data() + offset, sizeof value);
      values.push_back(value);
    }
  return values;
}

// Findings about the lowering; a random program is no collective, so the others are expected.
std::string lowering_findings(const Program& program) {
  std::string text;
  for (const Finding& finding : verify(program).findings)
    if (finding.rule != Rule::Postcondition && finding.rule != Rule::Origins &&
        finding.rule != Rule::Trees)
      text += std::string(rule_name(finding.rule)) + ": " + finding.text + "\n";
  return text;
}

bool check_program(uint64_t seed) {
  RandomProgram random(seed);
  const Result<Program> lowered = random.lower();
  EXPECT_TRUE(lowered.is_ok()) << lowered.status().to_string();
  if (!lowered.is_ok()) return false;
  const Program& program = lowered.value();
  EXPECT_EQ(lowering_findings(program), "");
  for (const bool in_place : {false, true}) {
    if (in_place ? !program.in_place : !program.out_of_place) continue;
    Memory expected(program, in_place);
    load_inputs(program, expected);
    random.run_statements(expected);
    EXPECT_EQ(run_reference(program, in_place), expected.outputs());
    for (uint64_t schedule = 0; schedule < 3; ++schedule) {
      Memory memory(program, in_place);
      load_inputs(program, memory);
      EXPECT_EQ(run_adversarially(program, memory, seed * 3 + schedule), "");
      EXPECT_EQ(memory.outputs(), expected.outputs());
    }
  }
  return !::testing::Test::HasFailure();
}

TEST(RandomPrograms, ComputeWhatTheirStatementsCompute) {
  for (uint64_t seed = 0; seed < kProgramCount; ++seed)
    ASSERT_TRUE(check_program(seed)) << "seed " << seed << "\n"
                                     << program_text(RandomProgram(seed).lower().value());
}

}  // namespace
}  // namespace mccl
