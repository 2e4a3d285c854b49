#include <gtest/gtest.h>

#include "mccl/language.h"
#include "unit/lang/program_text.h"
#include "verify/verify.h"

namespace mccl {
namespace {

// Rank 0 reduces what ranks 1 and 2 send, in one lane of its own.
Program reduce_two(bool has_early_waits) {
  ProgramBuilder builder("test", Collective::Reduce, 3, 1);
  builder.serve(true, false);
  for (const int rank : {1, 2})
    builder.copy(builder.input(rank, 0), builder.scratch(0, rank - 1),
                 {.send_lane = 0, .recv_lane = rank});
  for (const int rank : {1, 2})
    builder.reduce(builder.scratch(0, rank - 1), builder.output(0, 0), builder.output(0, 0),
                   {.send_lane = 9});
  builder.set_early_waits(has_early_waits);
  return builder.lower().value();
}

TEST(EarlyWaits, StandOnTheFirstLocalReduceOfALane) {
  EXPECT_EQ(rank_text(reduce_two(true), 0),
            "rank 0 lane 0 step 0: recv scratch[0] <- message from 1 on channel 0\n"
            "rank 0 lane 1 step 0: recv scratch[1] <- message from 2 on channel 0\n"
            "rank 0 lane 2 step 0: reduce output[0] <- scratch[0] (after 0.0) (after 1.0)\n"
            "rank 0 lane 2 step 1: reduce output[0] <- scratch[1]\n");
  EXPECT_EQ(verify(reduce_two(true)).to_string(), "");
}

TEST(EarlyWaits, StandWhereTheyAreNeededUnlessAskedFor) {
  EXPECT_EQ(rank_text(reduce_two(false), 0),
            "rank 0 lane 0 step 0: recv scratch[0] <- message from 1 on channel 0\n"
            "rank 0 lane 1 step 0: recv scratch[1] <- message from 2 on channel 0\n"
            "rank 0 lane 2 step 0: reduce output[0] <- scratch[0] (after 0.0)\n"
            "rank 0 lane 2 step 1: reduce output[0] <- scratch[1] (after 1.0)\n");
}

// The second reduce waits for the answer to what the lane sends after the first one.
TEST(EarlyWaits, AreLeftWhereTheProgramWouldStop) {
  ProgramBuilder builder("test", Collective::AllReduce, 2, 2);
  builder.serve(true, false);
  builder.reduce(builder.input(0, 1), builder.output(0, 0), builder.output(0, 0), {.send_lane = 0});
  builder.copy(builder.output(0, 0), builder.scratch(1, 0), {.send_lane = 0, .recv_lane = 0});
  builder.copy(builder.scratch(1, 0), builder.scratch(0, 0), {.send_lane = 1, .recv_lane = 1});
  builder.reduce(builder.scratch(0, 0), builder.output(0, 0), builder.output(0, 0),
                 {.send_lane = 0});
  builder.set_early_waits(true);
  EXPECT_EQ(rank_text(builder.lower().value(), 0),
            "rank 0 lane 0 step 0: reduce output[0] <- input[1]\n"
            "rank 0 lane 0 step 1: send <- output[0] -> message to 1 on channel 0\n"
            "rank 0 lane 0 step 2: reduce output[0] <- scratch[0] (after 1.0)\n"
            "rank 0 lane 1 step 0: recv scratch[0] <- message from 1 on channel 0\n");
}

TEST(SharedLanes, TakeLocalWorkThatNobodyWaitsForToTheLaneThatIsDoneFirst) {
  for (const bool is_shared : {true, false}) {
    ProgramBuilder builder("test", Collective::AllToAll, 2, 1);
    builder.serve(false, true);
    for (const int from : {0, 1})
      for (const int to : {0, 1}) builder.copy(builder.input(from, to), builder.output(to, from));
    builder.set_shared_lanes(is_shared);
    const Program program = builder.lower().value();
    EXPECT_EQ(rank_text(program, 0),
              is_shared ? "rank 0 lane 0 step 0: send <- input[1] -> message to 1 on channel 0\n"
                          "rank 0 lane 0 step 1: copy output[0] <- input[0]\n"
                          "rank 0 lane 1 step 0: recv output[1] <- message from 1 on channel 0\n"
                        : "rank 0 lane 0 step 0: copy output[0] <- input[0]\n"
                          "rank 0 lane 1 step 0: send <- input[1] -> message to 1 on channel 0\n"
                          "rank 0 lane 2 step 0: recv output[1] <- message from 1 on channel 0\n");
    EXPECT_EQ(verify(program).to_string(), "");
  }
}

}  // namespace
}  // namespace mccl
