// Files shaped like every one that RCCL and Azure's scheduler ship load, are proven, and give on
// the real engine, in virtual time, the bits of the reference executor, in every way that they
// claim.
#include "shapes/msccl_shapes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/prng.h"
#include "check/file_report.h"
#include "comm/program_prover.h"
#include "comm/simulated_group.h"
#include "ir/collective.h"
#include "show/program_summary.h"
#include "verify/reference.h"

namespace mccl {
namespace {

const std::vector<MscclShape>& shapes() {
  static const std::vector<MscclShape> all = make_msccl_shapes();
  return all;
}

std::string steps_text(const ProgramSummary& summary) {
  std::string text;
  for (const auto& [opcode, count] : summary.steps_by_opcode)
    text += (text.empty() ? "" : ", ") + std::string(opcode) + " " + std::to_string(count);
  return text;
}

struct Run {
  DataType dtype;
  bool in_place;
  int64_t block_count;  // elements
};

// One call of a program on the engine, compared with the reference executor.
class ShapeRun {
 public:
  ShapeRun(std::shared_ptr<const ProvenProgram> program, const Run& run)
      : program_(std::move(program)), run_(run) {}

  void expect_exact() {
    make_inputs();
    const Program& program = program_->program();
    const ReferenceCall call{run_.dtype, ReduceOp::Sum, run_.in_place, block_counts(), inputs_};
    const Result<std::vector<Bytes>> expected = execute_reference(program, call);
    ASSERT_TRUE(expected.is_ok()) << expected.status().to_string();
    sim::WorldOptions world;
    world.latency_jitter = 1;
    SimulatedGroupOptions options;
    options.program = program_;
    options.log = [](int, std::string_view) {};
    SimulatedGroup group(program.rank_count(), world, std::move(options));
    ASSERT_TRUE(group.add_communicator("shapes").is_ok());
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < program.rank_count(); ++rank) {
      Result<std::shared_ptr<Work>> work = post(group.communicator(rank), rank);
      ASSERT_TRUE(work.is_ok()) << work.status().to_string();
      works.push_back(std::move(work).value());
    }
    ASSERT_TRUE(group.run(works));
    for (const std::shared_ptr<Work>& work : works)
      ASSERT_TRUE(work->status().is_ok()) << work->status().to_string();
    for (int rank = 0; rank < program.rank_count(); ++rank)
      ASSERT_TRUE(outputs_[index(rank)] == expected.value()[index(rank)]) << "rank " << rank;
    const std::vector<ProgramCount> programs = group.communicator(0).stats().programs;
    ASSERT_EQ(programs.size(), 1u);
    EXPECT_EQ(programs[0].program, program.name);
  }

 private:
  static size_t index(int rank) { return static_cast<size_t>(rank); }
  int blocks(Buffer buffer) const { return mccl::block_count(program_->program(), buffer, 0); }
  size_t block_bytes() const {
    return static_cast<size_t>(run_.block_count) * dtype_bytes(run_.dtype);
  }
  std::vector<int64_t> block_counts() const {
    const int ranks = program_->program().rank_count();
    size_t origins = 1;
    if (program_->program().collective == Collective::AllGather) origins = index(ranks);
    if (program_->program().collective == Collective::AllToAll) origins = index(ranks * ranks);
    return std::vector<int64_t>(origins, run_.block_count);
  }

  // Whole numbers small enough that floats add them exactly in any order too.
  void make_inputs() {
    Prng prng(7);
    for (int rank = 0; rank < program_->program().rank_count(); ++rank) {
      Bytes bytes(index(blocks(Buffer::Input)) * block_bytes());
      for (size_t at = 0; at < bytes.size(); at += dtype_bytes(run_.dtype)) {
        const auto number = static_cast<int>(prng.below(1000)) - 500;
        const auto real = static_cast<float>(number) / 3;
        if (run_.dtype == DataType::Int32)
          std::memcpy(&bytes[at], &number, sizeof number);
        else
          std::memcpy(&bytes[at], &real, sizeof real);
      }
      inputs_.push_back(bytes);
      outputs_.emplace_back(index(blocks(Buffer::Output)) * block_bytes());
    }
  }

  Result<std::shared_ptr<Work>> post(Communicator& communicator, int rank) {
    const Collective collective = program_->program().collective;
    std::byte* output = outputs_[index(rank)].data();
    std::byte* input = inputs_[index(rank)].data();
    if (run_.in_place) {
      std::byte* shared =
          collective == Collective::AllGather ? output + index(rank) * block_bytes() : output;
      std::memcpy(shared, input, inputs_[index(rank)].size());
      input = shared;
    }
    std::vector<InputBlock> from;
    std::vector<OutputBlock> to;
    for (int block = 0; block < blocks(Buffer::Input); ++block)
      from.push_back({input + index(block) * block_bytes(), run_.block_count});
    for (int block = 0; block < blocks(Buffer::Output); ++block)
      to.push_back({output + index(block) * block_bytes(), run_.block_count});
    if (collective == Collective::AllGather)
      return communicator.all_gather(input, std::move(to), run_.dtype);
    if (collective == Collective::AllToAll)
      return communicator.all_to_all(std::move(from), std::move(to), run_.dtype);
    return communicator.all_reduce(input, output, run_.block_count, run_.dtype, ReduceOp::Sum);
  }

  std::shared_ptr<const ProvenProgram> program_;
  Run run_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> outputs_;
};

class MscclShapes : public testing::TestWithParam<size_t> {
 protected:
  const MscclShape& shape() const { return shapes()[GetParam()]; }
};

TEST_P(MscclShapes, LoadsAndIsProven) {
  const FileReport report = make_file_report(write_like_msccl_tools(shape()), XmlTarget::Mccl);
  EXPECT_EQ(to_string(report, shape().file), "");
  EXPECT_EQ(report.read.program, shape().program);
  EXPECT_EQ(report.read.use, shape().use);
  EXPECT_LE(report.proof.credits_needed, 2);
}

TEST_P(MscclShapes, HasTheFiguresOfTheFile) {
  const ProgramSummary summary = summarize(shape().program, shape().use);
  EXPECT_EQ(steps_text(summary), shape().steps);
  EXPECT_EQ(summary.size_chunks, shape().nchunksperloop);
  EXPECT_EQ(summary.lanes_of_rank, shape().tbs_of_gpu);
  EXPECT_EQ(summary.largest_count, shape().largest_count);
  EXPECT_EQ(summary.scratch_chunks, shape().s_chunks);
  const std::string text = write_like_msccl_tools(shape());
  EXPECT_NE(text.find(" nchannels=\"" + std::to_string(shape().nchannels) + "\""),
            std::string::npos);
}

TEST_P(MscclShapes, FitsTheLoadersThatItWasMadeFor) {
  const std::string text = write_like_msccl_tools(shape());
  const XmlReadResult read = read_xml(text);
  ASSERT_TRUE(read.is_ok());
  EXPECT_EQ(check_target(text, read, XmlTarget::Executor).size(), 0u);
}

TEST_P(MscclShapes, RunsExactly) {
  const Result<std::shared_ptr<const ProvenProgram>> proven =
      ProgramProver::prove(read_xml(write_like_msccl_tools(shape())).program);
  ASSERT_TRUE(proven.is_ok()) << proven.status().to_string();
  const Program& program = proven.value()->program();
  const int64_t chunks = program.chunk_count;
  for (const bool in_place : {false, true}) {
    if (in_place ? !program.in_place : !program.out_of_place) continue;
    // Whole chunks, and a count that leaves the last ones short or empty.
    for (const int64_t count : {2 * chunks, chunks + chunks / 2 + 1}) {
      ShapeRun(proven.value(), {DataType::Int32, in_place, count}).expect_exact();
      ShapeRun(proven.value(), {DataType::Float32, in_place, count}).expect_exact();
      if (HasFailure()) return;
    }
  }
}

std::vector<size_t> shape_indices() {
  std::vector<size_t> indices;
  for (size_t shape = 0; shape < shapes().size(); ++shape) indices.push_back(shape);
  return indices;
}

std::string shape_name(const testing::TestParamInfo<size_t>& info) {
  std::string name = shapes()[info.param].file;
  for (char& byte : name)
    if (std::isalnum(static_cast<unsigned char>(byte)) == 0) byte = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, MscclShapes, testing::ValuesIn(shape_indices()), shape_name);

TEST(MscclShapes, OnePassIsRefusedBecauseRanksWouldDifferInBits) {
  const MscclShape shape = make_one_pass_shape();
  EXPECT_EQ(steps_text(summarize(shape.program, shape.use)), shape.steps);
  const FileReport report = make_file_report(write_like_msccl_tools(shape), XmlTarget::Mccl);
  ASSERT_TRUE(report.read.is_ok());
  ASSERT_FALSE(report.is_proven());
  for (const PlacedFinding& finding : report.findings) EXPECT_EQ(finding.rule, Rule::Trees);
  EXPECT_EQ(report.findings[0].text,
            "output[0] is (7 + (6 + (5 + (4 + (3 + (2 + (0 + 1))))))) on rank 0 and "
            "(7 + (6 + (5 + (4 + (3 + (1 + (0 + 2))))))) on rank 2");
}

}  // namespace
}  // namespace mccl
