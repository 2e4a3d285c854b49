// What the rules refuse in collectives whose input and output differ in size: in-place shifts,
// buffers of the root alone, origins by source and destination.
#include <gtest/gtest.h>

#include "support/program_fixtures.h"
#include "verify/verify.h"

namespace mccl {
namespace {

std::vector<Step>& steps_of(Program& program, size_t rank, size_t lane) {
  return program.ranks[rank].lanes[lane].steps;
}

std::string refusal(const Program& program) {
  return verify(program).to_string();
}

TEST(Structure, RefusesAnAllToAllThatClaimsToServeInPlaceCalls) {
  Program program = make_pairwise_all_to_all(2);
  program.in_place = true;
  EXPECT_EQ(refusal(program),
            "structure: the program claims to serve in-place calls, which all_to_all does not "
            "have\n");
}

TEST(Structure, RefusesAnOutputThatOnlyTheRootHas) {
  Program program = make_direct_gather(2);
  steps_of(program, 1, 0).push_back({Opcode::Copy, {input_span(1, 0)}, {output_span(1, 0)}, {}});
  EXPECT_EQ(refusal(program),
            "structure: rank 1 lane 0 step 1 names output[0], but output has 0 chunks\n");
}

TEST(InputWritten, RefusesAnInPlaceReduceScatterThatWritesTheBlockOfAnother) {
  Program program = make_ring_reduce_scatter(2);
  program.out_of_place = false;
  // Rank 0's own block is input[0], which is its output; input[1] is sent and then written.
  steps_of(program, 0, 0).push_back({Opcode::Copy, {output_span(0, 0)}, {input_span(0, 0)}, {}});
  EXPECT_EQ(refusal(program), "");
  steps_of(program, 0, 0)[2].destinations[0] = input_span(0, 1);
  const Verdict verdict = verify(program);
  ASSERT_FALSE(verdict.is_proven());
  EXPECT_EQ(verdict.findings[0].rule, Rule::InputWritten);
  EXPECT_EQ(verdict.findings[0].text,
            "rank 0 lane 0 step 2 writes input[1], which is not part of the output of an in-place "
            "call");
}

TEST(Origins, RefusesAnAllToAllThatMixesUpTwoBlocks) {
  Program program = make_pairwise_all_to_all(3);
  std::swap(steps_of(program, 1, 1)[0].sources, steps_of(program, 1, 3)[0].sources);
  const Verdict verdict = verify(program);
  ASSERT_FALSE(verdict.is_proven());
  EXPECT_EQ(verdict.findings[0].rule, Rule::Origins);
}

TEST(Postcondition, RefusesABlockThatNeverReachesItsRank) {
  Program program = make_ring_reduce_scatter(3);
  steps_of(program, 2, 0)[2].opcode = Opcode::Recv;
  steps_of(program, 2, 0)[2].sources.clear();
  EXPECT_EQ(verify(program).findings[0].text, "rank 2: output[0] lacks rank 2's contribution");
}

}  // namespace
}  // namespace mccl
