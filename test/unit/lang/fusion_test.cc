#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"

namespace mccl {
namespace {

ProgramBuilder make_builder(int rank_count, int chunk_count) {
  return ProgramBuilder("test", Collective::AllReduce, rank_count, chunk_count);
}

std::string rank_one(ProgramBuilder& builder) {
  const Result<Program> program = builder.lower();
  return program.is_ok() ? rank_text(program.value(), 1) : program.status().to_string();
}

TEST(Fusion, ForwardsAReceivedSpan) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.copy(builder.input(0, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv_copy_send output[0] <- message from 0 -> message to 2 on "
            "channel 0\n");
}

TEST(Fusion, CanBeSwitchedOff) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.set_fusion(false);
  builder.copy(builder.input(0, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv output[0] <- message from 0 on channel 0\n"
            "rank 1 lane 1 step 0: send <- output[0] -> message to 2 on channel 0 (after 0.0)\n");
}

TEST(Fusion, StoresAReducedValueThatIsAnOutput) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv_reduce_copy_send output[0] <- message from 0, input[0] -> "
            "message to 2 on channel 0\n");
}

TEST(Fusion, DoesNotStoreAReducedValueThatIsOverwrittenUnread) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  builder.copy(builder.output(2, 0), builder.output(1, 0), {.recv_lane = 7});
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv_reduce_send <- message from 0, input[0] -> message to 2 on "
            "channel 0\n"
            "rank 1 lane 1 step 0: recv output[0] <- message from 2 on channel 0 (after 0.0)\n");
}

TEST(Fusion, DoesNotStoreAReducedValueInScratchThatNobodyElseReads) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.scratch(1, 0));
  builder.copy(builder.scratch(1, 0), builder.output(2, 0));
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv_reduce_send <- message from 0, input[0] -> message to 2 on "
            "channel 0\n");
}

TEST(Fusion, StoresAReducedValueThatIsReadBeforeItIsOverwritten) {
  ProgramBuilder builder = make_builder(3, 2);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.scratch(1, 0));
  builder.copy(builder.scratch(1, 0), builder.output(2, 0));
  builder.copy(builder.scratch(1, 0), builder.output(1, 1));
  builder.copy(builder.input(1, 1), builder.scratch(1, 0));
  EXPECT_EQ(rank_one(builder).substr(0, 50), "rank 1 lane 0 step 0: recv_reduce_copy_send scratc");
}

TEST(Fusion, StoresAValueThatIsOverwrittenUnderItsOtherNameOnly) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.serve(true, false);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  builder.copy(builder.output(2, 0), builder.input(1, 0));
  EXPECT_EQ(rank_one(builder).substr(0, 50), "rank 1 lane 0 step 0: recv_reduce_copy_send output");
}

TEST(Fusion, MergesAReceiveWithTheReduceOfWhatCame) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.copy(builder.input(0, 0), builder.scratch(1, 0));
  builder.reduce(builder.scratch(1, 0), builder.input(1, 0), builder.output(1, 0));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 1),
            "rank 1 lane 0 step 0: recv_reduce_copy output[0] <- message from 0, input[0] on "
            "channel 0\n");
  EXPECT_EQ(program.ranks[1].scratch_chunk_count, 0);
}

TEST(Fusion, MergesAReceiveThatIsTheStayingOperand) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.copy(builder.input(0, 0), builder.output(1, 0));
  builder.reduce(builder.input(1, 0), builder.output(1, 0), builder.output(1, 0));
  // In place the message overwrites the input that is reduced next: nothing may be merged.
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv output[0] <- message from 0 on channel 0\n"
            "rank 1 lane 0 step 1: reduce output[0] <- input[0]\n");
  ProgramBuilder apart = make_builder(2, 1);
  apart.serve(false, true);
  apart.copy(apart.input(0, 0), apart.output(1, 0));
  apart.reduce(apart.input(1, 0), apart.output(1, 0), apart.output(1, 0));
  EXPECT_EQ(rank_one(apart),
            "rank 1 lane 0 step 0: recv_reduce_copy output[0] <- message from 0, input[0] on "
            "channel 0\n");
}

TEST(Fusion, LeavesAReceivedValueThatOthersReadInItsPlace) {
  ProgramBuilder builder = make_builder(2, 2);
  builder.copy(builder.input(0, 0), builder.output(1, 1));
  builder.reduce(builder.output(1, 1), builder.input(1, 0), builder.output(1, 0));
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv output[1] <- message from 0 on channel 0\n"
            "rank 1 lane 0 step 1: fold output[0] <- output[1], input[0]\n");
}

TEST(Fusion, NeverMergesIntoAFoldThatTheAuthorWrote) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.copy(builder.input(0, 0), builder.scratch(1, 0));
  builder.fold({builder.scratch(1, 0), builder.input(1, 0)}, {builder.output(1, 0)});
  EXPECT_EQ(rank_one(builder),
            "rank 1 lane 0 step 0: recv scratch[0] <- message from 0 on channel 0\n"
            "rank 1 lane 0 step 1: fold output[0] <- scratch[0], input[0]\n");
}

TEST(Fusion, NeverJoinsLocalReducesIntoAFold) {
  ProgramBuilder builder = make_builder(1, 3);
  Chunk value = builder.reduce(builder.input(0, 0), builder.input(0, 1), builder.scratch(0, 0));
  builder.reduce(builder.input(0, 2), value, builder.output(0, 0));
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: fold scratch[0] <- input[0], input[1]\n"
            "rank 0 lane 0 step 1: fold output[0] <- input[2], scratch[0]\n");
}

TEST(Fusion, SplitsWhatWouldNeedMoreThanTwoMessagesInTheAir) {
  // Rank 2 takes rank 1's messages only after it heard that rank 1 has got them all.
  ProgramBuilder builder = make_builder(3, 4);
  for (int chunk = 0; chunk < 4; ++chunk)
    builder.copy(builder.input(0, chunk), builder.scratch(1, chunk));
  builder.copy(builder.input(2, 0), builder.scratch(2, 8));
  builder.fold(
      {builder.scratch(1, 0), builder.scratch(1, 1), builder.scratch(1, 2), builder.scratch(1, 3)},
      {builder.scratch(1, 8)});
  builder.copy(builder.scratch(1, 8), builder.scratch(2, 8), {.channel = 5});
  for (int chunk = 0; chunk < 4; ++chunk) {
    builder.reduce(builder.scratch(2, 8), builder.input(2, chunk), builder.scratch(2, chunk));
    builder.copy(builder.scratch(1, chunk), builder.scratch(2, chunk));
  }
  EXPECT_EQ(
      rank_one(builder),
      "rank 1 lane 0 step 0: recv scratch[0] <- message from 0 on channel 0\n"
      "rank 1 lane 0 step 1: recv scratch[1] <- message from 0 on channel 0\n"
      "rank 1 lane 0 step 2: recv scratch[2] <- message from 0 on channel 0\n"
      "rank 1 lane 0 step 3: recv scratch[3] <- message from 0 on channel 0\n"
      "rank 1 lane 0 step 4: fold scratch[8] <- scratch[0], scratch[1], scratch[2], scratch[3]\n"
      "rank 1 lane 1 step 0: send <- scratch[8] -> message to 2 on channel 5 (after 0.4)\n"
      "rank 1 lane 2 step 0: send <- scratch[0] -> message to 2 on channel 0 (after 0.0)\n"
      "rank 1 lane 2 step 1: send <- scratch[1] -> message to 2 on channel 0 (after 0.1)\n"
      "rank 1 lane 2 step 2: send <- scratch[2] -> message to 2 on channel 0 (after 0.2)\n"
      "rank 1 lane 2 step 3: send <- scratch[3] -> message to 2 on channel 0 (after 0.3)\n");
}

}  // namespace
}  // namespace mccl
