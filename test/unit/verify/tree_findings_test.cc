// The rule that ranks and aliasings agree on their trees, with the exact words.
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

TEST(Trees, RefusesRanksThatReduceInDifferentOrder) {
  // One-step all-reduce: all send all, each folds for itself; rank 1 lists another order.
  Program program;
  program.name = "one_step";
  program.ranks.resize(3);
  for (int rank = 0; rank < 3; ++rank) {
    RankProgram& own = program.ranks[static_cast<size_t>(rank)];
    own.scratch_chunk_count = 3;
    own.lanes.push_back(
        {-1, -1, 0, {{Opcode::Copy, {input_span(rank, 0)}, {scratch_span(rank, rank)}, {}}}});
    for (int peer = 0; peer < 3; ++peer)
      if (peer != rank)
        own.lanes.push_back({peer,
                             peer,
                             0,
                             {{Opcode::Send, {input_span(rank, 0)}, {}, {}},
                              {Opcode::Recv, {}, {scratch_span(rank, peer)}, {}}}});
    own.lanes[0].steps.push_back(
        {Opcode::Fold,
         {scratch_span(rank, 0), scratch_span(rank, 1), scratch_span(rank, 2)},
         {output_span(rank, 0)},
         {{1, 1}, {2, 1}}});
  }
  EXPECT_TRUE(verify(program).is_proven()) << refusal(program);
  std::swap(steps_of(program, 1, 0)[1].sources[0], steps_of(program, 1, 0)[1].sources[1]);
  EXPECT_TRUE(verify(program).is_proven()) << refusal(program);
  std::swap(steps_of(program, 1, 0)[1].sources[0], steps_of(program, 1, 0)[1].sources[2]);
  EXPECT_EQ(refusal(program),
            "trees: output[0] is fold(0, 1, 2) on rank 0 and fold(0, 2, 1) on rank 1\n");
  // Noted instead, where the asker can refuse the calls in which it shows.
  const Verdict noted = verify(program, RankTrees::MayDiffer);
  EXPECT_TRUE(noted.is_proven()) << noted.to_string();
  EXPECT_FALSE(noted.proof.is_bitwise_equal);
  std::swap(steps_of(program, 1, 0)[1].sources[0], steps_of(program, 1, 0)[1].sources[2]);
  EXPECT_TRUE(verify(program, RankTrees::MayDiffer).proof.is_bitwise_equal);
}

TEST(Trees, TellsWhatComputesWronglyFromWhatMustNotRun) {
  Program wrong = make_binomial_broadcast(2);
  wrong.ranks[1].lanes[0].steps[0].destinations[0].buffer = Buffer::Scratch;
  wrong.ranks[1].scratch_chunk_count = 1;
  const Verdict verdict = verify(wrong);
  EXPECT_TRUE(verdict.computes_wrongly()) << verdict.to_string();
  EXPECT_EQ(verdict.proof.steps.size(), 2u);
  EXPECT_FALSE(verify(make_binomial_broadcast(2)).computes_wrongly());
  Program stuck = make_binomial_broadcast(2);
  stuck.ranks[0].lanes.clear();
  EXPECT_FALSE(verify(stuck).is_proven());
  EXPECT_FALSE(verify(stuck).computes_wrongly());
}

TEST(Trees, RefusesValuesThatDependOnTheAliasing) {
  // Rank 1 sends input[0] twice, the second time after it became output[0] in place.
  Program program = make_binomial_broadcast(2);
  program.ranks[0].scratch_chunk_count = 2;
  program.ranks[0].lanes.push_back({-1, 1, 1, {{Opcode::Recv, {}, {scratch_span(0, 0)}, {}}}});
  program.collective = Collective::AllReduce;
  program.ranks[0].lanes[0] = {
      -1, 1, 0, {{Opcode::RecvReduceCopy, {input_span(0, 0)}, {output_span(0, 0)}, {}}}};
  program.ranks[1].lanes.push_back({0, -1, 0, {{Opcode::Send, {input_span(1, 0)}, {}, {}}}});
  program.ranks[1].lanes.push_back({0, -1, 1, {{Opcode::Send, {input_span(1, 0)}, {}, {{0, 0}}}}});
  EXPECT_EQ(refusal(program),
            "trees (in place): rank 1 lane 2 step 0 sends 1 out of place and (0 + 1) in place\n"
            "  rank 1 lane 2 step 0: send <- input[0] -> message to 0 on channel 1\n");
}

}  // namespace
}  // namespace mccl
