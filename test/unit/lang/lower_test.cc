#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"

namespace mccl {
namespace {

ProgramBuilder make_builder(int rank_count, int chunk_count) {
  return ProgramBuilder("test", Collective::AllReduce, rank_count, chunk_count);
}

std::string lowered(ProgramBuilder& builder) {
  const Result<Program> program = builder.lower();
  return program.is_ok() ? program_text(program.value()) : program.status().to_string();
}

TEST(Lower, GivesNoLanesToAProgramWithoutStatements) {
  ProgramBuilder builder = make_builder(2, 1);
  const Program program = builder.lower().value();
  EXPECT_EQ(program.rank_count(), 2);
  EXPECT_TRUE(program.ranks[0].lanes.empty());
}

TEST(Lower, KeepsNameCollectiveChunksAndClaims) {
  ProgramBuilder builder("mine", Collective::Broadcast, 2, 3);
  builder.serve(true, false);
  const Program program = builder.lower().value();
  EXPECT_EQ(program.name, "mine");
  EXPECT_EQ(program.collective, Collective::Broadcast);
  EXPECT_EQ(program.chunk_count, 3);
  EXPECT_TRUE(program.in_place);
  EXPECT_FALSE(program.out_of_place);
}

TEST(Lower, SendsACopyBetweenRanksAsOneMessage) {
  ProgramBuilder builder = make_builder(2, 3);
  builder.copy(builder.input(0, 1, 2), builder.output(1, 1, 2));
  EXPECT_EQ(lowered(builder),
            "rank 0 lane 0 step 0: send <- input[1..3) -> message to 1 on channel 0\n"
            "rank 1 lane 0 step 0: recv output[1..3) <- message from 0 on channel 0\n");
}

TEST(Lower, ReducesTheMessageWithTheStayingOperand) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.scratch(1, 4));
  EXPECT_EQ(lowered(builder),
            "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
            "rank 1 lane 0 step 0: recv_reduce_copy scratch[4] <- message from 0, input[0] on "
            "channel 0\n");
}

TEST(Lower, SizesScratchByTheStepsThatAreLeft) {
  ProgramBuilder builder = make_builder(2, 1);
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.scratch(1, 4));
  const Program program = builder.lower().value();
  EXPECT_EQ(program.ranks[0].scratch_chunk_count, 0);
  EXPECT_EQ(program.ranks[1].scratch_chunk_count, 5);
}

TEST(Lower, TurnsALocalReduceWithAnotherResultIntoAFoldOfTwo) {
  ProgramBuilder builder = make_builder(1, 2);
  builder.reduce(builder.input(0, 0), builder.input(0, 1), builder.output(0, 0));
  EXPECT_EQ(lowered(builder), "rank 0 lane 0 step 0: fold output[0] <- input[0], input[1]\n");
}

TEST(Lower, KeepsALocalReduceInPlace) {
  ProgramBuilder builder = make_builder(1, 2);
  builder.copy(builder.input(0, 0), builder.scratch(0, 0));
  builder.reduce(builder.input(0, 1), builder.scratch(0, 0), builder.scratch(0, 0));
  EXPECT_EQ(lowered(builder),
            "rank 0 lane 0 step 0: copy scratch[0] <- input[0]\n"
            "rank 0 lane 0 step 1: reduce scratch[0] <- input[1]\n");
}

TEST(Lower, OrdersInputAndOutputAsOneMemoryWhenTheProgramServesInPlaceCalls) {
  for (const bool in_place : {true, false}) {
    ProgramBuilder builder = make_builder(2, 1);
    builder.serve(in_place, true);
    builder.copy(builder.input(0, 0), builder.scratch(1, 0), {.send_lane = 1});
    builder.copy(builder.input(1, 0), builder.output(0, 0), {.recv_lane = 2});
    const std::string ordered = in_place ? " (after 0.0)" : "";
    EXPECT_EQ(lowered(builder),
              "rank 0 lane 0 step 0: send <- input[0] -> message to 1 on channel 0\n"
              "rank 0 lane 1 step 0: recv output[0] <- message from 1 on channel 0" +
                  ordered +
                  "\n"
                  "rank 1 lane 0 step 0: send <- input[0] -> message to 0 on channel 0\n"
                  "rank 1 lane 1 step 0: recv scratch[0] <- message from 0 on channel 0\n");
  }
}

TEST(Lower, OrdersAllGatherBlocksByTheirPlaceInTheOutput) {
  ProgramBuilder builder("test", Collective::AllGather, 2, 1);
  builder.copy(builder.input(1, 0), builder.output(1, 1));
  builder.copy(builder.output(1, 1), builder.output(0, 1));
  builder.copy(builder.input(1, 0), builder.scratch(1, 0));
  // The last copy reads input[0], which in place is what the first one wrote.
  EXPECT_EQ(lowered(builder),
            "rank 0 lane 0 step 0: recv output[1] <- message from 1 on channel 0\n"
            "rank 1 lane 0 step 0: copy output[1] <- input[0]\n"
            "rank 1 lane 0 step 1: send <- output[1] -> message to 0 on channel 0\n"
            "rank 1 lane 0 step 2: copy scratch[0] <- input[0]\n");
}

TEST(Lower, OrdersTheStepsOfALaneByDependenceDepth) {
  ProgramBuilder builder = make_builder(3, 2);
  // The first statement's message needs a hop more than the second one's.
  const Chunk hop = builder.copy(builder.input(2, 0), builder.scratch(0, 0));
  builder.reduce(hop, builder.input(0, 0), builder.scratch(0, 1));
  builder.copy(builder.scratch(0, 1), builder.output(1, 0));
  builder.copy(builder.input(0, 1), builder.output(1, 1));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 1),
            "rank 1 lane 0 step 0: recv output[1] <- message from 0 on channel 0\n"
            "rank 1 lane 0 step 1: recv output[0] <- message from 0 on channel 0\n");
}

TEST(Lower, WaitsForTheLastReaderBeforeOverwriting) {
  ProgramBuilder builder = make_builder(3, 1);
  builder.copy(builder.input(0, 0), builder.scratch(0, 0));
  builder.copy(builder.scratch(0, 0), builder.output(1, 0));
  builder.copy(builder.scratch(0, 0), builder.output(2, 0));
  builder.copy(builder.input(1, 0), builder.scratch(0, 0));
  const Program program = builder.lower().value();
  EXPECT_EQ(rank_text(program, 0),
            "rank 0 lane 0 step 0: copy scratch[0] <- input[0]\n"
            "rank 0 lane 0 step 1: send <- scratch[0] -> message to 1 on channel 0\n"
            "rank 0 lane 0 step 2: recv scratch[0] <- message from 1 on channel 0 (after 1.0)\n"
            "rank 0 lane 1 step 0: send <- scratch[0] -> message to 2 on channel 0 (after 0.0)\n");
}

TEST(Lower, DropsADependenceThatAnotherOneImplies) {
  ProgramBuilder builder = make_builder(1, 1);
  const auto lane = [](int key) { return Placement{.send_lane = key}; };
  builder.copy(builder.input(0, 0), builder.scratch(0, 0), lane(0));
  builder.copy(builder.scratch(0, 0), builder.scratch(0, 1), lane(1));
  // Reads what lane 0 and lane 1 wrote; lane 1 has waited for lane 0.
  builder.fold({builder.scratch(0, 0), builder.scratch(0, 1)}, {builder.output(0, 0)}, lane(2));
  EXPECT_EQ(lowered(builder),
            "rank 0 lane 0 step 0: copy scratch[0] <- input[0]\n"
            "rank 0 lane 1 step 0: copy scratch[1] <- scratch[0] (after 0.0)\n"
            "rank 0 lane 2 step 0: fold output[0] <- scratch[0], scratch[1] (after 1.0)\n");
}

TEST(Lower, GivesTheSameProgramForTheSameStatements) {
  std::string first;
  for (int run = 0; run < 3; ++run) {
    ProgramBuilder builder = make_builder(5, 5);
    for (int from = 0; from < 5; ++from)
      for (int to = 0; to < 5; ++to)
        if (from != to) builder.copy(builder.input(from, to), builder.scratch(to, from));
    for (int rank = 0; rank < 5; ++rank)
      builder.fold({builder.scratch(rank, (rank + 1) % 5), builder.input(rank, rank)},
                   {builder.output(rank, rank)});
    const std::string text = lowered(builder);
    if (run == 0) first = text;
    EXPECT_EQ(text, first);
  }
}

}  // namespace
}  // namespace mccl
