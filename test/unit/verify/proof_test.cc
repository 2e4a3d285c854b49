// What a proof says about the hand-written programs: proven for every rank count, capture waits,
// credits, origins and tree digests.
#include <gtest/gtest.h>

#include "support/program_fixtures.h"
#include "verify/trees.h"
#include "verify/verify.h"

namespace mccl {
namespace {

int capture_wait_count(const Proof& proof) {
  int count = 0;
  for (const auto& rank : proof.steps)
    for (const auto& lane : rank)
      for (const StepProof& step : lane) count += static_cast<int>(step.capture_waits.size());
  return count;
}

TEST(Proof, HoldsForEveryFixtureOnOneToNineRanks) {
  for (const ProgramFixture& fixture : program_fixtures())
    for (int rank_count = 1; rank_count <= 9; ++rank_count) {
      const Verdict verdict = verify(fixture.make(rank_count));
      EXPECT_TRUE(verdict.is_proven()) << fixture.name << " on " << rank_count << " ranks\n"
                                       << verdict.to_string();
      EXPECT_EQ(verdict.to_string(), "");
    }
}

TEST(Proof, HoldsForEachAliasingClaimedAlone) {
  for (const ProgramFixture& fixture : program_fixtures())
    for (const bool in_place : {false, true}) {
      Program program = fixture.make(4);
      if (in_place && !program.in_place) continue;  // an all-to-all
      program.in_place = in_place;
      program.out_of_place = !in_place;
      EXPECT_TRUE(verify(program).is_proven()) << fixture.name;
    }
}

TEST(Proof, RecursiveDoublingWaitsForTheCaptureOfWhatItSentInEachRound) {
  const Verdict verdict = verify(make_recursive_doubling_all_reduce(4));
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  for (size_t rank = 0; rank < 4; ++rank) {
    const auto& lanes = verdict.proof.steps[rank];
    EXPECT_EQ(lanes[1][1].capture_waits, (std::vector<StepRef>{{1, 0}}));
    EXPECT_EQ(lanes[2][1].capture_waits, (std::vector<StepRef>{{2, 0}}));
  }
  EXPECT_EQ(capture_wait_count(verdict.proof), 8);
}

TEST(Proof, FoldedInRanksNeedNoCaptureWaitBecauseTheReplyProvesTheRead) {
  const Verdict verdict = verify(make_recursive_doubling_all_reduce(3));
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  // Rank 2 sends its input and receives over it in place; rank 0 and 1 exchange one round.
  EXPECT_TRUE(verdict.proof.steps[2][0][1].capture_waits.empty());
  EXPECT_EQ(capture_wait_count(verdict.proof), 2);
}

TEST(Proof, ReduceScatterInPlaceOverwritesNothingThatIsSent) {
  EXPECT_EQ(capture_wait_count(verify(make_ring_reduce_scatter(5)).proof), 0);
  EXPECT_EQ(capture_wait_count(verify(make_direct_reduce_scatter(5)).proof), 0);
}

TEST(Proof, BlocksOfAnAllToAllAreNumberedBySourceAndDestination) {
  const Verdict verdict = verify(make_pairwise_all_to_all(3));
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  // Rank 1, lane 1 sends to rank 2; lane 2 receives from rank 0.
  const auto& lanes = verdict.proof.steps[1];
  EXPECT_EQ(lanes[1][0].origins, (std::vector<Origin>{{1 * 3 + 2, 0}}));
  EXPECT_EQ(lanes[2][0].origins, (std::vector<Origin>{{0 * 3 + 1, 0}}));
}

TEST(Proof, RingAndAllPairsNeedNoCaptureWaits) {
  EXPECT_EQ(capture_wait_count(verify(make_ring_all_reduce(5)).proof), 0);
  EXPECT_EQ(capture_wait_count(verify(make_all_pairs_all_reduce(5)).proof), 0);
}

TEST(Proof, KeepsOnlyTheLastSendOfALaneAmongCaptureWaits) {
  // Rank 0 sends both chunks by one lane, then overwrites both by one span in another lane.
  Program program;
  program.collective = Collective::Broadcast;
  program.chunk_count = 2;
  program.in_place = false;
  program.ranks.resize(2);
  program.ranks[0].scratch_chunk_count = 2;
  const Span input = input_span(0, 0, 2);
  program.ranks[0].lanes = {{-1,
                             -1,
                             0,
                             {{Opcode::Copy, {input}, {scratch_span(0, 0, 2)}, {}},
                              {Opcode::Copy, {input}, {scratch_span(0, 0, 2)}, {{1, 1}}},
                              {Opcode::Copy, {input}, {output_span(0, 0, 2)}, {}}}},
                            {1,
                             -1,
                             0,
                             {{Opcode::Send, {scratch_span(0, 0)}, {}, {{0, 0}}},
                              {Opcode::Send, {scratch_span(0, 1)}, {}, {}}}}};
  program.ranks[1].lanes = {
      {-1,
       0,
       0,
       {{Opcode::Recv, {}, {output_span(1, 0)}, {}}, {Opcode::Recv, {}, {output_span(1, 1)}, {}}}}};
  const Verdict verdict = verify(program);
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  EXPECT_EQ(verdict.proof.steps[0][0][1].capture_waits, (std::vector<StepRef>{{1, 1}}));
}

TEST(Proof, AStepThatOverwritesWhatAFusedStepSentWaitsForItsCapture) {
  // Rank 1 forwards output[0] by reference and then stores the same bytes there again.
  Program program = make_binomial_broadcast(2);
  program.ranks.resize(3);
  program.ranks[1].lanes = {{2,
                             0,
                             0,
                             {{Opcode::RecvCopySend, {}, {output_span(1, 0)}, {}},
                              {Opcode::Recv, {}, {output_span(1, 0)}, {}}}}};
  program.ranks[0].lanes[1].steps.push_back({Opcode::Send, {output_span(0, 0)}, {}, {}});
  program.ranks[2].lanes = {{-1, 1, 0, {{Opcode::Recv, {}, {output_span(2, 0)}, {}}}}};
  const Verdict verdict = verify(program);
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  EXPECT_EQ(verdict.proof.steps[1][0][1].capture_waits, (std::vector<StepRef>{{0, 0}}));
}

TEST(Proof, TheFusedRingNeedsTwoCreditsAndOthersOne) {
  EXPECT_EQ(verify(make_ring_all_reduce(3)).proof.credits_needed, 2);
  EXPECT_EQ(verify(make_ring_all_gather(3)).proof.credits_needed, 2);
  EXPECT_EQ(verify(make_all_pairs_all_reduce(3)).proof.credits_needed, 1);
  EXPECT_EQ(verify(make_recursive_doubling_all_reduce(3)).proof.credits_needed, 1);
}

TEST(Proof, GivesTheOriginOfEveryChunkOfEveryStep) {
  const Verdict verdict = verify(make_all_pairs_all_reduce(3));
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  const auto& lanes = verdict.proof.steps[1];
  EXPECT_EQ(lanes[0][0].origins, (std::vector<Origin>{{0, 1}}));  // fold of chunk 1
  EXPECT_EQ(lanes[1][0].origins, (std::vector<Origin>{{0, 2}}));  // send of chunk 2 to rank 2
  EXPECT_EQ(lanes[3][0].origins, (std::vector<Origin>{{0, 1}}));  // chunk 1 into scratch
  EXPECT_EQ(lanes[3][1].origins, (std::vector<Origin>{{0, 0}}));  // the result of rank 0
}

TEST(Proof, GivesOriginsByBlockForAllGather) {
  const Verdict verdict = verify(make_ring_all_gather(3, 2));
  ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
  EXPECT_EQ(verdict.proof.steps[0][1][0].origins, (std::vector<Origin>{{0, 0}, {0, 1}}));
  EXPECT_EQ(verdict.proof.steps[0][1][1].origins, (std::vector<Origin>{{2, 0}, {2, 1}}));
}

TEST(Proof, EqualTreesHaveEqualDigestsAcrossPrograms) {
  // On two ranks a fold of two is a binary node, and its operands are unordered.
  const Proof ring = verify(make_ring_all_reduce(2)).proof;
  const Proof all_pairs = verify(make_all_pairs_all_reduce(2)).proof;
  const Proof doubling = verify(make_recursive_doubling_all_reduce(2)).proof;
  ASSERT_EQ(ring.output_trees.size(), 2u);
  EXPECT_EQ(ring.output_trees, all_pairs.output_trees);
  EXPECT_EQ(ring.output_trees[0], ring.output_trees[1]);
  EXPECT_EQ(doubling.output_trees, (std::vector<uint64_t>{ring.output_trees[0]}));
}

TEST(Proof, DifferentTreesHaveDifferentDigests) {
  const Proof ring = verify(make_ring_all_reduce(3)).proof;
  const Proof all_pairs = verify(make_all_pairs_all_reduce(3)).proof;
  // Chunk 0 of the ring is ((0 + 1) + 2); the fold of three is rounded once.
  EXPECT_NE(ring.output_trees[0], ring.output_trees[1]);
  EXPECT_NE(ring.output_trees[0], all_pairs.output_trees[0]);
  EXPECT_EQ(all_pairs.output_trees[0], all_pairs.output_trees[1]);
}

TEST(Proof, IsTheSameForTheSameProgram) {
  const Program program = make_all_pairs_all_reduce(4);
  EXPECT_EQ(verify(program).proof, verify(program).proof);
}

TEST(Proof, HoldsForAFoldWhoseDestinationIsAmongItsSources) {
  Program program = make_all_pairs_all_reduce(2);
  program.out_of_place = false;
  for (int rank = 0; rank < 2; ++rank)
    for (Span& source : program.ranks[static_cast<size_t>(rank)].lanes[0].steps[0].sources)
      if (source.buffer == Buffer::Input) source.buffer = Buffer::Output;
  const Verdict verdict = verify(program);
  EXPECT_TRUE(verdict.is_proven()) << verdict.to_string();
}

TEST(Proof, OfManyHundredMessagesOnOneStreamIsFound) {
  // Numbers of nodes and messages that no small field would hold.
  Program program = make_binomial_broadcast(2);
  for (int i = 0; i < 70'000; ++i) {
    program.ranks[0].lanes[1].steps.push_back({Opcode::Send, {output_span(0, 0)}, {}, {}});
    program.ranks[1].lanes[0].steps.push_back({Opcode::Recv, {}, {output_span(1, 0)}, {}});
  }
  EXPECT_TRUE(verify(program).is_proven());
}

}  // namespace
}  // namespace mccl
