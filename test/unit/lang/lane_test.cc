#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"

namespace mccl {
namespace {

ProgramBuilder make_builder(int rank_count, int chunk_count) {
  return ProgramBuilder("test", Collective::AllReduce, rank_count, chunk_count);
}

TEST(Lanes, LowerTheRingToOneFusedLanePerRank) {
  ProgramBuilder ring = make_builder(4, 4);
  for (int chunk = 0; chunk < 4; ++chunk) {
    Chunk value = ring.input(chunk, chunk);
    for (int step = 1; step < 4; ++step)
      value = ring.reduce(value, ring.input((chunk + step) % 4, chunk),
                          ring.output((chunk + step) % 4, chunk));
    for (int step = 1; step < 4; ++step)
      value = ring.copy(value, ring.output((value.rank + 1) % 4, chunk));
  }
  const Program program = ring.lower().value();
  const std::vector<Opcode> shape = {Opcode::Send,
                                     Opcode::RecvReduceSend,
                                     Opcode::RecvReduceSend,
                                     Opcode::RecvReduceCopySend,
                                     Opcode::RecvCopySend,
                                     Opcode::RecvCopySend,
                                     Opcode::Recv};
  for (int rank = 0; rank < 4; ++rank) {
    const auto& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
    ASSERT_EQ(lanes.size(), 1u);
    EXPECT_EQ(lanes[0].send_peer, (rank + 1) % 4);
    EXPECT_EQ(lanes[0].recv_peer, (rank + 3) % 4);
    EXPECT_EQ(lanes[0].channel, 0);
    std::vector<Opcode> found;
    for (const Step& step : lanes[0].steps) {
      found.push_back(step.opcode);
      EXPECT_TRUE(step.dependences.empty());
    }
    EXPECT_EQ(found, shape);
  }
}

TEST(Lanes, PutBothHalvesOfAnExchangeIntoOneLane) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.copy(builder.input(0, 0), builder.scratch(1, 0));
  builder.copy(builder.input(1, 0), builder.scratch(0, 0));
  for (int rank = 0; rank < 2; ++rank)
    builder.reduce(builder.scratch(rank, 0), builder.input(rank, 0), builder.output(rank, 0));
  EXPECT_EQ(program_text(builder.lower().value()),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
            "rank 0 lane 0 step 1: recv_reduce_copy output[0] <- message from 1, input[0] on "
            "channel 0\n"
            "rank 1 lane 0 step 0: send <- input[0] -> message to 0 on channel 0\n"
            "rank 1 lane 0 step 1: recv_reduce_copy output[0] <- message from 0, input[0] on "
            "channel 0\n");
}

TEST(Lanes, KeepIndependentDirectionsApart) {
  ProgramBuilder builder = make_builder(2, 2);
  builder.copy(builder.input(0, 0), builder.output(1, 0));
  builder.copy(builder.input(1, 1), builder.output(0, 1));
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
            "rank 0 lane 1 step 0: recv output[1] <- message from 1 on channel 0\n");
}

TEST(Lanes, UseAnotherChannelWhereTwoChainsLeaveARankDifferently) {
  ProgramBuilder builder = make_builder(4, 2);
  builder.copy(builder.input(0, 0), builder.output(1, 0));
  builder.copy(builder.output(1, 0), builder.output(2, 0));
  builder.copy(builder.input(0, 1), builder.output(1, 1));
  builder.copy(builder.output(1, 1), builder.output(3, 1));
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: recv_copy_send output[0] <- message from 0 -> message to 2 on "
            "channel 0\n"
            "rank 1 lane 1 step 0: recv_copy_send output[1] <- message from 0 -> message to 3 on "
            "channel 1\n");
}

TEST(Lanes, CutAChainThatLeavesARankInTwoWays) {
  ProgramBuilder builder = make_builder(4, 1);
  builder.copy(builder.input(0, 0), builder.scratch(1, 0));
  builder.copy(builder.scratch(1, 0), builder.scratch(2, 0));
  builder.copy(builder.scratch(2, 0), builder.scratch(0, 0));
  builder.copy(builder.scratch(0, 0), builder.scratch(1, 1));
  builder.copy(builder.scratch(1, 1), builder.output(3, 0));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 1),
            "rank 1 lane 0 step 0: recv_copy_send scratch[0] <- message from 0 -> message to 2 on "
            "channel 0\n"
            "rank 1 lane 0 step 1: recv scratch[1] <- message from 0 on channel 0\n"
            "rank 1 lane 1 step 0: send <- scratch[1] -> message to 3 on channel 0 (after 0.1)\n");
}

TEST(Lanes, UseAnotherChannelWhereOneCannotKeepTheOrder) {
  // Rank 0 must give the first message first; rank 1 reduces it as it takes it, with the second
  // one.
  ProgramBuilder builder = make_builder(2, 2);
  builder.copy(builder.input(0, 0), builder.scratch(0, 0));
  builder.copy(builder.scratch(0, 0), builder.scratch(1, 0));
  builder.copy(builder.input(0, 1), builder.scratch(0, 0));
  builder.copy(builder.scratch(0, 0), builder.scratch(1, 1));
  builder.reduce(builder.scratch(1, 0), builder.scratch(1, 1), builder.output(1, 0));
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: recv scratch[1] <- message from 0 on channel 1\n"
            "rank 1 lane 1 step 0: recv_reduce_copy output[0] <- message from 0, scratch[1] on "
            "channel 0 (after 0.0)\n");
}

TEST(Lanes, FollowTheAuthorsKeysAndChannels) {
  ProgramBuilder builder = make_builder(3, 3);
  const Placement first{.channel = 3, .send_lane = 4, .recv_lane = 0};
  builder.copy(builder.input(0, 0), builder.output(1, 0), first);
  builder.copy(builder.input(1, 1), builder.output(0, 1), {.recv_lane = 4});
  builder.copy(builder.input(0, 2), builder.scratch(0, 0), {.send_lane = 4});
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 3\n"
            "rank 0 lane 0 step 1: copy scratch[0] <- input[2]\n"
            "rank 0 lane 0 step 2: recv output[1] <- message from 1 on channel 3\n");
}

TEST(Lanes, KeepDifferentKeysApartOnTheirOwnChannels) {
  ProgramBuilder builder = make_builder(2, 2);
  builder.copy(builder.input(0, 0), builder.output(1, 0), {.send_lane = 0});
  builder.copy(builder.input(0, 1), builder.output(1, 1), {.send_lane = 1});
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
            "rank 0 lane 1 step 0: send <- input[1] -> message to 1 on channel 1\n");
}

TEST(Lanes, DoNotFuseAcrossDifferentKeys) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.copy(builder.input(0, 0), builder.output(1, 0), {.recv_lane = 0});
  builder.copy(builder.output(1, 0), builder.output(2, 0), {.send_lane = 1});
  EXPECT_EQ(rank_text(builder.lower().value(), 1),
            "rank 1 lane 0 step 0: recv output[0] <- message from 0 on channel 0\n"
            "rank 1 lane 1 step 0: send <- output[0] -> message to 2 on channel 0 (after 0.0)\n");
}

TEST(Lanes, GiveAFoldOfManyMessagesALaneOfItsOwn) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.copy(builder.input(1, 0), builder.scratch(0, 0));
  builder.copy(builder.input(2, 0), builder.scratch(0, 1));
  builder.fold({builder.input(0, 0), builder.scratch(0, 0), builder.scratch(0, 1)},
               {builder.output(0, 0)});
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: recv scratch[0] <- message from 1 on channel 0\n"
            "rank 0 lane 1 step 0: recv scratch[1] <- message from 2 on channel 0\n"
            "rank 0 lane 2 step 0: fold output[0] <- input[0], scratch[0], scratch[1] (after 0.0) "
            "(after 1.0)\n");
}

}  // namespace
}  // namespace mccl
