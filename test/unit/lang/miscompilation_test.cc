// Programs that the reference compiler of MSCCL gets wrong: each lowers to a program that is
// proven, or that computes what its statements say.
#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"
#include "verify/verify.h"

namespace mccl {
namespace {

ProgramBuilder make_builder(int rank_count, int chunk_count) {
  return ProgramBuilder("test", Collective::AllReduce, rank_count, chunk_count);
}

TEST(Miscompilation, ARemoteReduceIntoAnotherPlaceReadsTheStayingOperand) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.copy(builder.input(0, 0), builder.scratch(0, 0));
  builder.reduce(builder.scratch(0, 0), builder.input(1, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(0, 0));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 1),
            "rank 1 lane 0 step 0: recv_reduce_copy_send output[0] <- message from 0, input[0] -> "
            "message to 0 on channel 0\n");
  EXPECT_EQ(verify(program).to_string(), "");
}

TEST(Miscompilation, ASendOfAShiftedSpanIsNotForwarded) {
  ProgramBuilder builder = make_builder(3, 4);
  builder.copy(builder.input(1, 2), builder.scratch(1, 2));
  builder.copy(builder.input(0, 0, 2), builder.scratch(1, 0, 2));
  builder.copy(builder.scratch(1, 1, 2), builder.scratch(2, 0, 2));
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: copy scratch[2] <- input[2]\n"
            "rank 1 lane 0 step 1: send <- scratch[1..3) -> message to 2 on channel 0 (after "
            "1.0)\n"
            "rank 1 lane 1 step 0: recv scratch[0..2) <- message from 0 on channel 0\n");
}

TEST(Miscompilation, ASendOfASpanThatWasOverwrittenInPartIsNotForwarded) {
  ProgramBuilder builder = make_builder(3, 2);
  builder.copy(builder.input(0, 0, 2), builder.scratch(1, 0, 2));
  builder.copy(builder.input(1, 0), builder.scratch(1, 1));
  builder.copy(builder.scratch(1, 0, 2), builder.scratch(2, 0, 2));
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: recv scratch[0..2) <- message from 0 on channel 0\n"
            "rank 1 lane 0 step 1: copy scratch[1] <- input[0]\n"
            "rank 1 lane 1 step 0: send <- scratch[0..2) -> message to 2 on channel 0 (after "
            "0.1)\n");
}

TEST(Miscompilation, AReducedSpanThatIsOverwrittenInPartIsStored) {
  ProgramBuilder builder = make_builder(2, 2);
  builder.reduce(builder.input(0, 0, 2), builder.input(1, 0, 2), builder.output(1, 0, 2));
  builder.copy(builder.output(1, 0, 2), builder.output(0, 0, 2));
  builder.copy(builder.output(0, 0), builder.output(1, 0));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 1),
            "rank 1 lane 0 step 0: recv_reduce_copy_send output[0..2) <- message from 0, "
            "input[0..2) -> message to 0 on channel 0\n"
            "rank 1 lane 0 step 1: recv output[0] <- message from 0 on channel 0\n");
  EXPECT_EQ(verify(program).to_string(), "");
}

TEST(Miscompilation, AForwardedMessageIsStoredWhereItsOwnRankWantsIt) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.copy(builder.input(1, 0), builder.scratch(1, 0));
  builder.copy(builder.input(0, 0), builder.scratch(1, 1));
  builder.copy(builder.scratch(1, 1), builder.scratch(2, 0));
  builder.fold({builder.scratch(1, 0), builder.scratch(1, 1)}, {builder.output(1, 0)});
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: copy scratch[0] <- input[0]\n"
            "rank 1 lane 0 step 1: fold output[0] <- scratch[0], scratch[1] (after 1.0)\n"
            "rank 1 lane 1 step 0: recv_copy_send scratch[1] <- message from 0 -> message to 2 on "
            "channel 0\n");
}

TEST(Miscompilation, AProgramThatStartsWithALocalReduceKeepsIt) {
  ProgramBuilder builder = make_builder(1, 2);
  builder.reduce(builder.input(0, 0), builder.input(0, 1), builder.output(0, 0));
  builder.copy(builder.output(0, 0), builder.output(0, 1));
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: fold output[0] <- input[0], input[1]\n"
            "rank 0 lane 0 step 1: copy output[1] <- output[0]\n");
}

TEST(Miscompilation, ReplicatedAllPairsIsProven) {
  ProgramBuilder builder = make_builder(3, 3);
  for (int rank = 0; rank < 3; ++rank)
    for (int owner = 0; owner < 3; ++owner)
      if (rank != owner) builder.copy(builder.input(rank, owner), builder.scratch(owner, rank));
  for (int owner = 0; owner < 3; ++owner) {
    std::vector<Chunk> shares;
    for (int rank = 0; rank < 3; ++rank)
      shares.push_back(rank == owner ? builder.input(owner, owner) : builder.scratch(owner, rank));
    builder.fold(shares, {builder.output(owner, owner)});
  }
  for (int owner = 0; owner < 3; ++owner)
    for (int rank = 0; rank < 3; ++rank)
      if (rank != owner) builder.copy(builder.output(owner, owner), builder.output(rank, owner));
  builder.set_instances(2);
  const Program copies = builder.lower().value();
  EXPECT_EQ(copies.chunk_count, 6);
  EXPECT_EQ(verify(copies).to_string(), "");
}

TEST(Miscompilation, AllGatherByDoublingWithWideMessagesIsProven) {
  ProgramBuilder builder("test", Collective::AllGather, 8, 1);
  for (int rank = 0; rank < 8; ++rank)
    builder.copy(builder.input(rank, 0), builder.output(rank, rank));
  for (int distance = 1; distance < 8; distance *= 2)
    for (int rank = 0; rank < 8; ++rank) {
      const int first = rank / distance * distance;
      builder.copy(builder.output(rank, first, distance),
                   builder.output(rank ^ distance, first, distance));
    }
  EXPECT_EQ(verify(builder.lower().value()).to_string(), "");
}

TEST(Miscompilation, AReplyBetweenTwoReducesDoesNotDeadlock) {
  ProgramBuilder builder = make_builder(2, 2);
  builder.copy(builder.input(0, 0), builder.scratch(0, 0));
  builder.reduce(builder.input(0, 1), builder.scratch(0, 0), builder.scratch(0, 0));
  builder.copy(builder.scratch(0, 0), builder.scratch(1, 0));
  builder.reduce(builder.input(1, 0), builder.scratch(1, 0), builder.scratch(1, 0));
  builder.copy(builder.scratch(1, 0), builder.scratch(0, 1));
  builder.reduce(builder.scratch(0, 1), builder.scratch(0, 0), builder.scratch(0, 0));
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: copy scratch[0] <- input[0]\n"
            "rank 0 lane 0 step 1: reduce scratch[0] <- input[1]\n"
            "rank 0 lane 1 step 0: send <- scratch[0] -> message to 1 on channel 0 (after 0.1)\n"
            "rank 0 lane 1 step 1: recv_reduce_copy scratch[0] <- message from 1, scratch[0] on "
            "channel 0\n");
}

}  // namespace
}  // namespace mccl
