// Every rule refuses what it is about, with the exact words: the two values that disagree and the
// counter-example.
#include <gtest/gtest.h>

#include "support/program_fixtures.h"
#include "verify/verify.h"

namespace mccl {
namespace {

// One rank that copies its input to its output: proven.
Program make_copy() {
  return make_ring_all_reduce(1);
}

std::vector<Step>& steps_of(Program& program, size_t rank, size_t lane) {
  return program.ranks[rank].lanes[lane].steps;
}

std::string refusal(const Program& program) {
  return verify(program).to_string();
}

TEST(Structure, RefusesAProgramWithoutRanks) {
  EXPECT_EQ(refusal(Program{}), "structure: the program has 0 ranks; 1 to 4096 are allowed\n");
}

TEST(Structure, RefusesMoreRanksThanTheLimit) {
  Program program = make_copy();
  program.ranks.resize(4097);
  EXPECT_EQ(refusal(program), "structure: the program has 4097 ranks; 1 to 4096 are allowed\n");
}

TEST(Structure, RefusesChunkCountsThatOverflow) {
  Program program = make_ring_all_gather(3);
  program.chunk_count = 1 << 25;
  EXPECT_EQ(
      refusal(program),
      "structure: the program has 402653184 chunks in all buffers; 0 to 33554432 are allowed\n");
}

TEST(Structure, RefusesAProgramThatServesNeitherAliasing) {
  Program program = make_copy();
  program.in_place = program.out_of_place = false;
  EXPECT_EQ(refusal(program),
            "structure (in place): the program claims to serve neither in-place nor out-of-place "
            "calls\n");
}

TEST(Structure, RefusesASpanBeyondItsBuffer) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0].destinations[0] = output_span(0, 1);
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0 names output[1], but output has 1 chunk\n");
}

TEST(Structure, RefusesASpanWhoseEndOverflows) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0].sources[0] = input_span(0, 2, 2147483647);
  steps_of(program, 0, 0)[0].destinations[0] = output_span(0, 0, 2147483647);
  const Verdict verdict = verify(program);
  ASSERT_EQ(verdict.findings.size(), 1u);
  EXPECT_EQ(verdict.findings[0].text,
            "the program has 4294967294 chunk operands; 0 to 64000000 are allowed");
}

TEST(Structure, RefusesAnEmptySpan) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0].sources[0].count = 0;
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0 names a span of 0 chunks; spans have at least 1\n");
}

TEST(Structure, RefusesSpansOfDifferentCounts) {
  Program program = make_ring_all_gather(1, 2);
  steps_of(program, 0, 0)[0].sources[0].count = 1;
  EXPECT_EQ(
      refusal(program),
      "structure: rank 0 lane 0 step 0 names spans of 2 and 1 chunks; all spans of a step have "
      "the same count\n");
}

TEST(Structure, RefusesAnotherRanksMemory) {
  Program program = make_ring_all_reduce(2);
  steps_of(program, 0, 0)[0].sources[0].rank = 1;
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0 names input[0] of rank 1; a step may name another "
            "rank's memory only inside a memory domain, and the program declares none\n");
}

TEST(Structure, RefusesAWrongNumberOfOperands) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0].sources.clear();
  steps_of(program, 0, 0).push_back({Opcode::Fold, {}, {output_span(0, 0)}, {}});
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0: copy has 0 sources; it takes 1\n\n"
            "structure: rank 0 lane 0 step 1: fold has 0 sources; it takes at least 1\n");
}

TEST(Structure, RefusesPeersThatDoNotExist) {
  Program program = make_ring_all_reduce(2);
  program.ranks[0].lanes[0].send_peer = 2;
  program.ranks[1].lanes[0].recv_peer = 1;
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 sends to rank 2; the ranks are 0 to 1\n\n"
            "structure: rank 1 lane 0 receives from rank 1, which is itself; use a copy\n");
}

TEST(Structure, RefusesASendWithoutSendPeer) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0] = {Opcode::Send, {input_span(0, 0)}, {}, {}};
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0: send sends, but its lane has no send peer\n");
}

TEST(Structure, RefusesTwoLanesOnOneStreamEnd) {
  Program program = make_ring_all_reduce(2);
  program.ranks[0].lanes.push_back({1, -1, 0, {}});
  EXPECT_EQ(
      refusal(program),
      "structure: rank 0: lanes 0 and 1 both send to rank 1 on channel 0; a stream end belongs "
      "to one lane\n");
}

TEST(Structure, RefusesChannelsBeyondTheLimit) {
  Program program = make_copy();
  program.ranks[0].lanes[0].channel = 1024;
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 has channel 1024; channels are 0 to 1023\n");
}

TEST(Structure, RefusesDependencesThatDoNotExistOrAreOutOfOrder) {
  Program program = make_all_pairs_all_reduce(2);
  steps_of(program, 0, 0)[0].dependences = {{2, 1}, {2, 0}, {3, 0}};
  steps_of(program, 0, 1)[1].dependences = {{1, 0}};
  EXPECT_EQ(refusal(program),
            "structure: rank 0 lane 0 step 0 depends on lane 2 step 0 out of order or twice\n\n"
            "structure: rank 0 lane 0 step 0 depends on lane 3 step 0, which does not exist\n\n"
            "structure: rank 0 lane 1 step 1 depends on lane 1 step 0 of its own lane\n");
}

TEST(Structure, ReportsAtMostTwentyFindings) {
  Program program = make_ring_all_reduce(30);
  for (RankProgram& rank : program.ranks) rank.lanes[0].send_peer = 77;
  EXPECT_EQ(verify(program).findings.size(), 20u);
}

TEST(Pairing, RefusesDifferentNumbersOfSendsAndReceives) {
  Program program = make_binomial_broadcast(2);
  steps_of(program, 0, 1).push_back({Opcode::Send, {output_span(0, 0)}, {}, {}});
  EXPECT_EQ(
      refusal(program),
      "pairing: stream from rank 0 to rank 1 on channel 0: rank 0 lane 1 sends 2 messages, rank "
      "1 lane 0 receives 1 message\n");
}

TEST(Pairing, RefusesAStreamWithoutReceiver) {
  Program program = make_binomial_broadcast(2);
  program.ranks[1].lanes[0].channel = 3;
  EXPECT_EQ(
      refusal(program),
      "pairing: stream from rank 0 to rank 1 on channel 0: rank 0 lane 1 sends 1 message, no "
      "lane of rank 1 receives\n\n"
      "pairing: stream from rank 0 to rank 1 on channel 3: no lane of rank 0 sends, rank 1 lane "
      "0 receives 1 message\n");
}

TEST(Pairing, RefusesDifferentChunkCountsOfAMessage) {
  Program program = make_binomial_broadcast(2, 2);
  steps_of(program, 1, 0)[0].destinations[0].count = 1;
  EXPECT_EQ(
      refusal(program),
      "pairing: stream from rank 0 to rank 1 on channel 0: message 0 is sent with 2 chunks and "
      "received with 1\n"
      "  rank 0 lane 1 step 0: send <- output[0..2) -> message to 1 on channel 0\n"
      "  rank 1 lane 0 step 0: recv output[0] <- message from 0 on channel 0\n");
}

TEST(Deadlock, RefusesDependencesInACycle) {
  Program program = make_all_pairs_all_reduce(2);
  for (size_t rank = 0; rank < 2; ++rank) steps_of(program, rank, 1)[0].dependences = {{0, 0}};
  EXPECT_EQ(verify(program).findings.at(0).text,
            "10 steps of 10 can never run with two messages outstanding per stream");
}

TEST(Deadlock, ShowsTheCycle) {
  // Both ranks receive before they send.
  Program program;
  program.ranks.resize(2);
  for (int rank = 0; rank < 2; ++rank)
    program.ranks[static_cast<size_t>(rank)].lanes = {
        {1 - rank,
         1 - rank,
         0,
         {{Opcode::RecvReduceCopy, {input_span(rank, 0)}, {output_span(rank, 0)}, {}},
          {Opcode::Send, {input_span(rank, 0)}, {}, {}}}}};
  EXPECT_EQ(
      refusal(program),
      "deadlock: 4 steps of 4 can never run with two messages outstanding per stream\n"
      "  rank 0 lane 0 step 0: recv_reduce_copy output[0] <- message from 1, input[0] on channel 0 "
      "waits for its message, sent by rank 1 lane 0 step 1\n"
      "  rank 1 lane 0 step 1: send <- input[0] -> message to 0 on channel 0 waits for the step "
      "before "
      "it rank 1 lane 0 step 0\n"
      "  rank 1 lane 0 step 0: recv_reduce_copy output[0] <- message from 0, input[0] on channel 0 "
      "waits for its message, sent by rank 0 lane 0 step 1\n"
      "  rank 0 lane 0 step 1: send <- input[0] -> message to 1 on channel 0 waits for the step "
      "before "
      "it rank 0 lane 0 step 0\n");
}

TEST(Deadlock, RefusesThreeMessagesBeforeTheFirstIsTaken) {
  // Rank 0 sends n messages on channel 0, then one on channel 1; rank 1 takes that one first.
  for (const int count : {1, 2, 3}) {
    Program program = make_binomial_broadcast(2);
    steps_of(program, 0, 1)
        .assign(static_cast<size_t>(count), {Opcode::Send, {output_span(0, 0)}, {}, {}});
    steps_of(program, 0, 1)[0].dependences = {{0, 0}};
    program.ranks[0].lanes.push_back(
        {1, -1, 1, {{Opcode::Send, {output_span(0, 0)}, {}, {{1, count - 1}}}}});
    steps_of(program, 1, 0)
        .assign(static_cast<size_t>(count), {Opcode::Recv, {}, {output_span(1, 0)}, {}});
    program.ranks[1].lanes.push_back({-1, 0, 1, {{Opcode::Recv, {}, {output_span(1, 0)}, {}}}});
    steps_of(program, 1, 0)[0].dependences = {{1, 0}};
    const Verdict verdict = verify(program);
    if (count <= 2) {
      ASSERT_TRUE(verdict.is_proven()) << verdict.to_string();
      EXPECT_EQ(verdict.proof.credits_needed, count);
      continue;
    }
    ASSERT_EQ(verdict.findings.size(), 1u);
    EXPECT_EQ(verdict.findings[0].rule, Rule::Deadlock);
    EXPECT_EQ(verdict.findings[0].trace.front(),
              "rank 0 lane 1 step 2: send <- output[0] -> message to 1 on channel 0 waits for its "
              "credit, given by rank 1 lane 0 step 0");
  }
}

TEST(Race, RefusesAReadThatNothingOrdersAfterItsWrite) {
  Program program = make_all_pairs_all_reduce(2);
  program.in_place = false;
  steps_of(program, 0, 1)[1].dependences.clear();
  EXPECT_EQ(refusal(program),
            "race: rank 0: output[0] is read by lane 1 step 1 and written by lane 0 step 0, and "
            "nothing orders the two\n"
            "  rank 0 lane 1 step 1: send <- output[0] -> message to 1 on channel 0\n"
            "  rank 0 lane 0 step 0: fold output[0] <- input[0], scratch[0]\n");
}

TEST(Race, RefusesTwoWritesWithoutOrder) {
  Program program = make_copy();
  program.ranks[0].lanes.push_back(program.ranks[0].lanes[0]);
  program.in_place = false;
  EXPECT_EQ(refusal(program),
            "race: rank 0: output[0] is written by lane 0 step 0 and written by lane 1 step 0, and "
            "nothing orders the two\n"
            "  rank 0 lane 0 step 0: copy output[0] <- input[0]\n"
            "  rank 0 lane 1 step 0: copy output[0] <- input[0]\n");
}

TEST(Race, SeesConflictsThatExistOnlyInPlace) {
  // Lane 2 reads the input while lane 1 writes the output: the same memory in place.
  Program program = make_copy();
  program.ranks[0].scratch_chunk_count = 2;
  program.ranks[0].lanes = {
      {-1, -1, 0, {{Opcode::Copy, {input_span(0, 0)}, {scratch_span(0, 0)}, {}}}},
      {-1, -1, 0, {{Opcode::Copy, {scratch_span(0, 0)}, {output_span(0, 0)}, {{0, 0}}}}},
      {-1, -1, 0, {{Opcode::Copy, {input_span(0, 0)}, {scratch_span(0, 1)}, {}}}}};
  EXPECT_EQ(
      refusal(program),
      "race (in place): rank 0: output[0] is read by lane 2 step 0 and written by lane 1 step "
      "0, and nothing orders the two\n"
      "  rank 0 lane 2 step 0: copy scratch[1] <- input[0]\n"
      "  rank 0 lane 1 step 0: copy output[0] <- scratch[0]\n");
  program.in_place = false;
  EXPECT_TRUE(verify(program).is_proven());
}

TEST(Race, ASendLaterThanTheOverwriteIsNoCaptureWait) {
  // Rank 1 of a pair reduces into what another lane sends, without order.
  Program program = make_recursive_doubling_all_reduce(2);
  program.ranks[0].lanes.push_back({-1, 1, 0, {steps_of(program, 0, 1)[1]}});
  program.ranks[0].lanes[1].recv_peer = -1;
  steps_of(program, 0, 1).pop_back();
  program.ranks[0].lanes[2].steps[0].dependences = {{0, 0}};
  EXPECT_EQ(refusal(program),
            "race: rank 0: output[0] is read by lane 1 step 0 and written by lane 2 step 0, and "
            "nothing orders the two\n"
            "  rank 0 lane 1 step 0: send <- output[0] -> message to 1 on channel 0\n"
            "  rank 0 lane 2 step 0: recv_reduce_copy output[0] <- message from 1, output[0] on "
            "channel 0\n");
}

TEST(Race, CreditsOrderNothing) {
  // Rank 0's third send needs the credit of the first receive, so with two credits rank 1's second
  // lane always comes later; with three it need not.
  Program program = make_binomial_broadcast(2);
  program.ranks[1].scratch_chunk_count = 1;
  program.ranks[0].lanes[1].steps.resize(3, {Opcode::Send, {output_span(0, 0)}, {}, {}});
  program.ranks[0].lanes.push_back({1, -1, 1, {{Opcode::Send, {output_span(0, 0)}, {}, {{1, 2}}}}});
  program.ranks[1].lanes[0].steps = {{Opcode::Recv, {}, {scratch_span(1, 0)}, {}},
                                     {Opcode::Recv, {}, {output_span(1, 0)}, {}},
                                     {Opcode::Recv, {}, {output_span(1, 0)}, {}}};
  program.ranks[1].lanes.push_back({-1, 0, 1, {{Opcode::Recv, {}, {scratch_span(1, 0)}, {}}}});
  EXPECT_EQ(
      refusal(program),
      "race: rank 1: scratch[0] is written by lane 0 step 0 and written by lane 1 step 0, and "
      "nothing orders the two\n"
      "  rank 1 lane 0 step 0: recv scratch[0] <- message from 0 on channel 0\n"
      "  rank 1 lane 1 step 0: recv scratch[0] <- message from 0 on channel 1\n");
}

TEST(Race, TheReceiverOfAMessageDoesNotPrecedeWhatItsSenderDoesNext) {
  Program program = make_binomial_broadcast(2);
  program.ranks[1].scratch_chunk_count = 1;
  program.ranks[0].lanes.push_back({1, -1, 1, {{Opcode::Send, {output_span(0, 0)}, {}, {{1, 0}}}}});
  program.ranks[1].lanes.push_back({-1, 0, 1, {{Opcode::Recv, {}, {output_span(1, 0)}, {}}}});
  EXPECT_EQ(verify(program).findings.at(0).rule, Rule::Race);
  program.ranks[1].lanes[1].steps[0].dependences = {{0, 0}};
  EXPECT_TRUE(verify(program).is_proven());
}

TEST(Race, RefusesASourceThatOverlapsItsDestination) {
  Program program = make_ring_all_gather(1, 2);
  program.ranks[0].scratch_chunk_count = 3;
  steps_of(program, 0, 0)
      .insert(steps_of(program, 0, 0).begin(),
              {{Opcode::Copy, {input_span(0, 0, 2)}, {scratch_span(0, 0, 2)}, {}},
               {Opcode::Copy, {scratch_span(0, 0, 2)}, {scratch_span(0, 1, 2)}, {}}});
  EXPECT_EQ(refusal(program),
            "race: rank 0 lane 0 step 1 has a source and a destination, scratch[0..2) and "
            "scratch[1..3), that overlap\n"
            "  rank 0 lane 0 step 1: copy scratch[1..3) <- scratch[0..2)\n");
}

TEST(Race, RefusesDestinationsThatOverlap) {
  Program program = make_copy();
  steps_of(program, 0, 0)[0] = {
      Opcode::Fold, {input_span(0, 0)}, {output_span(0, 0), output_span(0, 0)}, {}};
  program.in_place = false;
  EXPECT_EQ(
      refusal(program),
      "race: rank 0 lane 0 step 0 has two destinations, output[0] and output[0], that overlap\n"
      "  rank 0 lane 0 step 0: fold output[0], output[0] <- input[0]\n");
}

TEST(Unwritten, RefusesAReadOfScratchThatNothingWrote) {
  Program program = make_copy();
  program.ranks[0].scratch_chunk_count = 1;
  steps_of(program, 0, 0)[0].sources[0] = scratch_span(0, 0);
  EXPECT_EQ(refusal(program),
            "unwritten: rank 0 lane 0 step 0 reads scratch[0], to which nothing was written\n"
            "  rank 0 lane 0 step 0: copy output[0] <- scratch[0]\n");
}

TEST(Unwritten, TheInputOfABroadcastIsTheRootsAlone) {
  Program program = make_binomial_broadcast(2);
  program.ranks[1].lanes.push_back(
      {-1, -1, 0, {{Opcode::Copy, {input_span(1, 0)}, {output_span(1, 0)}, {{0, 0}}}}});
  program.in_place = false;
  EXPECT_EQ(refusal(program),
            "unwritten: rank 1 lane 1 step 0 reads input[0], to which nothing was written\n"
            "  rank 1 lane 1 step 0: copy output[0] <- input[0]\n");
}

TEST(Unwritten, OutOfPlaceTheOutputStartsUndefined) {
  Program program = make_recursive_doubling_all_reduce(2);
  program.ranks[0].lanes[0].steps.clear();
  program.ranks[0].lanes[1].steps[0].dependences.clear();
  const Verdict verdict = verify(program);
  ASSERT_EQ(verdict.findings.size(), 2u);
  EXPECT_EQ(verdict.findings[0].rule, Rule::Unwritten);
  EXPECT_FALSE(verdict.findings[0].in_place);
  EXPECT_EQ(verdict.findings[0].text,
            "rank 0 lane 1 step 0 reads output[0], to which nothing was written");
  program.out_of_place = false;
  EXPECT_TRUE(verify(program).is_proven());
}

TEST(InputWritten, RefusesAnOutOfPlaceProgramThatWritesItsInput) {
  Program program = make_copy();
  steps_of(program, 0, 0).push_back({Opcode::Copy, {output_span(0, 0)}, {input_span(0, 0)}, {}});
  EXPECT_EQ(refusal(program),
            "input_written: rank 0 lane 0 step 1 writes input[0], and the program claims to serve "
            "out-of-place calls\n"
            "  rank 0 lane 0 step 1: copy input[0] <- output[0]\n");
  program.out_of_place = false;
  EXPECT_TRUE(verify(program).is_proven());
}

TEST(Postcondition, RefusesAnOutputThatIsNeverWritten) {
  Program program = make_copy();
  steps_of(program, 0, 0).clear();
  EXPECT_EQ(refusal(program), "postcondition: rank 0: output[0] is never written\n");
  program.out_of_place = false;
  EXPECT_TRUE(verify(program).is_proven());
}

TEST(Postcondition, RefusesAMissingContribution) {
  Program program = make_all_pairs_all_reduce(3);
  steps_of(program, 1, 0)[0].sources.pop_back();
  const Verdict verdict = verify(program);
  ASSERT_FALSE(verdict.is_proven());
  EXPECT_EQ(verdict.findings[0].rule, Rule::Postcondition);
  EXPECT_EQ(verdict.findings[0].text, "rank 0: output[1] lacks rank 2's contribution");
  EXPECT_EQ(verdict.findings[0].trace,
            (std::vector<std::string>{"it holds (0 + 1)",
                                      "last written by rank 0 lane 4 step 1: recv output[1] <- "
                                      "message from 1 on channel 0"}));
}

TEST(Postcondition, RefusesAContributionThatCountsTwice) {
  Program program = make_copy();
  steps_of(program, 0, 0).push_back({Opcode::Reduce, {input_span(0, 0)}, {output_span(0, 0)}, {}});
  program.in_place = false;
  EXPECT_EQ(refusal(program),
            "postcondition: rank 0: output[0] holds rank 0's contribution more than once\n"
            "  it holds (0 + 0)\n"
            "  last written by rank 0 lane 0 step 1: reduce output[0] <- input[0]\n");
}

TEST(Postcondition, RefusesAReductionWhereOneInputIsWanted) {
  Program program = make_binomial_broadcast(1);
  steps_of(program, 0, 0).push_back({Opcode::Reduce, {input_span(0, 0)}, {output_span(0, 0)}, {}});
  program.in_place = false;
  EXPECT_EQ(verify(program).findings.at(0).text,
            "rank 0: output[0] should hold rank 0's input alone and holds (0 + 0)");
}

TEST(Origins, RefusesAReductionOfDifferentChunks) {
  Program program = make_ring_all_reduce(3);
  steps_of(program, 1, 0)[1].sources[0].index = 2;
  const Verdict verdict = verify(program);
  ASSERT_FALSE(verdict.is_proven());
  EXPECT_EQ(verdict.findings[0].rule, Rule::Origins);
  EXPECT_EQ(
      verdict.findings[0].text,
      "rank 1 lane 0 step 1 reduces chunks of different origin: the message holds chunk 0 and "
      "input[2] holds chunk 2");
}

TEST(Origins, RefusesAChunkStoredWhereAnotherHasItsRoom) {
  Program program = make_ring_all_gather(2);
  steps_of(program, 0, 1)[1].destinations[0].index = 0;
  program.in_place = false;
  steps_of(program, 0, 1)[1].dependences = {{0, 0}};
  EXPECT_EQ(
      verify(program).findings.at(0).text,
      "rank 0 lane 1 step 1 writes chunk 0 of block 1 to output[0], which has room for chunk 0 "
      "of block 0");
}

TEST(RuleName, NamesEveryRule) {
  EXPECT_STREQ(rule_name(Rule::Structure), "structure");
  EXPECT_STREQ(rule_name(Rule::Pairing), "pairing");
  EXPECT_STREQ(rule_name(Rule::Deadlock), "deadlock");
  EXPECT_STREQ(rule_name(Rule::Race), "race");
  EXPECT_STREQ(rule_name(Rule::Unwritten), "unwritten");
  EXPECT_STREQ(rule_name(Rule::InputWritten), "input_written");
  EXPECT_STREQ(rule_name(Rule::Postcondition), "postcondition");
  EXPECT_STREQ(rule_name(Rule::Origins), "origins");
  EXPECT_STREQ(rule_name(Rule::Trees), "trees");
}

}  // namespace
}  // namespace mccl
