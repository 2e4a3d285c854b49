// Random builder programs: the lowered program must compute what the statements compute one after
// the other, under the reference executor and under any interleaving, and the verifier must find
// nothing but what is wrong with a random program as a collective.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/prng.h"
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
    shape_.collective = pick(4) == 0 ? Collective::AllGather : Collective::AllReduce;
    shape_.chunk_count = 2 + pick(2);
    shape_.ranks.resize(static_cast<size_t>(2 + pick(3)));
    const int claim = pick(4);
    shape_.in_place = claim != 0;
    shape_.out_of_place = claim != 1;
    uses_channels_ = pick(4) == 0;
    count_max_ = 1 + pick(2);
    builder_.emplace(shape_.name, shape_.collective, shape_.rank_count(), shape_.chunk_count);
    builder_->serve(shape_.in_place, shape_.out_of_place);
    for (int rank = 0; rank < shape_.rank_count(); ++rank)
      for (int index = 0; index < shape_.chunk_count; ++index) {
        written_.insert({rank, Buffer::Input, index});
        if (!shape_.out_of_place)
          written_.insert({rank, Buffer::Output, input_alias(shape_, rank, index)});
      }
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

  int chunks_of(Buffer buffer) const {
    if (buffer == Buffer::Scratch) return kScratchChunks;
    return block_count(shape_.collective, buffer, shape_.rank_count()) * shape_.chunk_count;
  }

  Span pick_span(int rank, int count) {
    const auto buffer = static_cast<Buffer>(pick(3));
    return {rank, buffer, pick(chunks_of(buffer) - count + 1), count};
  }

  // One-chunk places under a view; in place an input is the output it aliases.
  std::vector<Place> places(const Span& span, bool in_place) const {
    std::vector<Place> found;
    for (int index = span.index; index < span.index + span.count; ++index)
      if (in_place && span.buffer == Buffer::Input)
        found.emplace_back(span.rank, Buffer::Output, input_alias(shape_, span.rank, index));
      else
        found.emplace_back(span.rank, span.buffer, index);
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

  bool is_legal(const Written& statement) const {
    if (shape_.out_of_place && statement.destination.buffer == Buffer::Input) return false;
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
    for (int index = 0; index < chunks_of(Buffer::Output); ++index) {
      const Written statement{{{rank, Buffer::Input, 0, 1}}, {rank, Buffer::Output, index, 1}};
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
  for (int rank = 0; rank < program.rank_count(); ++rank)
    for (int index = 0; index < program.chunk_count; ++index)
      memory.at(rank, Buffer::Input, index) = input_value(rank, index);
}

std::vector<uint64_t> run_reference(const Program& program, bool in_place) {
  ReferenceCall call;
  call.dtype = DataType::Int64;
  call.in_place = in_place;
  call.block_counts.assign(
      static_cast<size_t>(block_count(program.collective, Buffer::Output, program.rank_count())),
      program.chunk_count);
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    Bytes bytes(static_cast<size_t>(program.chunk_count) * sizeof(uint64_t));
    for (int index = 0; index < program.chunk_count; ++index) {
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
