#include "planner/call_plan.h"

#include <gtest/gtest.h>

#include "base/prng.h"

namespace mccl {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr ProgramShape kRing24 = {
    .chunk_count = 24, .recv_stream_count = 1, .message_chunk_count = 1};
constexpr ProgramShape kWhole = {
    .chunk_count = 1, .recv_stream_count = 2, .message_chunk_count = 1};

PlanEntry entry_with(int64_t window_bytes, int64_t slice_bytes, int channel_sets = 4) {
  return {.algorithm = "all_reduce_ring",
          .window_bytes = window_bytes,
          .slice_bytes = slice_bytes,
          .frame_bytes = 64 * kKiB,
          .channel_sets = channel_sets,
          .reason = "test"};
}

CallPlan planned(const PlanEntry& entry, const ProgramShape& shape, int64_t count,
                 int64_t element_bytes = 4, int64_t park_limit_bytes = 256 * kMiB) {
  Result<CallPlan> plan = plan_call(entry, shape, count, element_bytes, park_limit_bytes);
  EXPECT_TRUE(plan.is_ok()) << plan.status().to_string();
  return plan.is_ok() ? plan.value() : CallPlan{};
}

// alpha*B = 378,828 bytes; 25 MiB on 24 ranks are chunks of 1,092,268 bytes.
TEST(CallPlan, CutsTheChunkOfTwentyFourRanksIntoEqualSlices) {
  EXPECT_EQ(planned(entry_with(378'828 + 64 * kKiB, 64 * kKiB), kRing24, 25 * kMiB / 4),
            (CallPlan{.iteration_count = 2, .instance_count = 9, .slice_bytes = 60'736}));
  EXPECT_EQ(planned(entry_with(378'828 + 256 * kKiB, 64 * kKiB), kRing24, 25 * kMiB / 4),
            (CallPlan{.iteration_count = 1, .instance_count = 17, .slice_bytes = 64'256}));
}

TEST(CallPlan, TwoSlicesInTheAirOfALongLoopbackChunk) {
  const ProgramShape ring2 = {.chunk_count = 2, .recv_stream_count = 1};
  EXPECT_EQ(planned(entry_with(256 * kKiB, 128 * kKiB), ring2, 64 * kMiB / 4),
            (CallPlan{.iteration_count = 128, .instance_count = 2, .slice_bytes = 131'072}));
}

TEST(CallPlan, ASmallCallIsOneSliceOfOneInstance) {
  EXPECT_EQ(planned(entry_with(768 * kKiB, 256 * kKiB, 1), kWhole, 2),
            (CallPlan{.iteration_count = 1, .instance_count = 1, .slice_bytes = 64}));
  EXPECT_EQ(planned(entry_with(768 * kKiB, 256 * kKiB, 1), kWhole, 64 * kKiB),
            (CallPlan{.iteration_count = 1, .instance_count = 1, .slice_bytes = 262'144}));
  EXPECT_EQ(planned(entry_with(768 * kKiB, 256 * kKiB, 1), kWhole, 64 * kKiB + 1),
            (CallPlan{.iteration_count = 1, .instance_count = 2, .slice_bytes = 131'136}));
}

TEST(CallPlan, AnEmptyCallHasOneEmptyIteration) {
  EXPECT_EQ(planned(entry_with(768 * kKiB, 256 * kKiB), kWhole, 0),
            (CallPlan{.iteration_count = 1, .instance_count = 1, .slice_bytes = 64}));
}

TEST(CallPlan, AWindowOfOneSliceNeedsOneInstance) {
  const ProgramShape pairs = {.chunk_count = 24, .recv_stream_count = 46};
  EXPECT_EQ(planned(entry_with(64 * kKiB, 64 * kKiB, 1), pairs, 25 * kMiB / 4),
            (CallPlan{.iteration_count = 17, .instance_count = 1, .slice_bytes = 64'256}));
}

TEST(CallPlan, AtMostThirtyTwoInstancesThenMoreIterations) {
  EXPECT_EQ(planned(entry_with(16 * kMiB, 64 * kKiB, 1), {.recv_stream_count = 1}, 2 * kMiB),
            (CallPlan{.iteration_count = 4, .instance_count = 32, .slice_bytes = 65'536}));
}

TEST(CallPlan, AParkLimitTakesInstancesFirstAndThenShortensSlices) {
  // Two messages, four sets, one stream: 8 bytes of parking for each byte in the air.
  const PlanEntry entry = entry_with(448 * kKiB, 64 * kKiB);
  EXPECT_EQ(planned(entry, kRing24, 25 * kMiB / 4, 4, 8 * 256 * kKiB),
            (CallPlan{.iteration_count = 5,
                      .instance_count = 4,
                      .slice_bytes = 54'656,
                      .is_park_limited = true}));
  EXPECT_EQ(planned(entry, kRing24, 25 * kMiB / 4, 4, 8 * 32 * kKiB),
            (CallPlan{.iteration_count = 34,
                      .instance_count = 1,
                      .slice_bytes = 32'128,
                      .is_park_limited = true}));
}

TEST(CallPlan, RejectsAParkLimitBelowOneSmallSliceAndSaysWhatWouldDo) {
  const Result<CallPlan> plan =
      plan_call(entry_with(448 * kKiB, 64 * kKiB), kRing24, 25 * kMiB / 4, 4, 8 * 4096 - 1);
  ASSERT_FALSE(plan.is_ok());
  EXPECT_EQ(plan.status().to_string(),
            "unsupported: all_reduce_ring needs 32768 bytes of parking (1 streams, 4 sets, 2 "
            "messages of 1 x 4096 bytes each), MCCL_PARK_LIMIT is 32767; set it to 32768 or more");
  EXPECT_FALSE(planned(entry_with(448 * kKiB, 64 * kKiB), kRing24, 25 * kMiB / 4, 4, 8 * 4096)
                   .iteration_count == 1);
}

TEST(CallPlan, AllGuaranteesHoldForAnyCall) {
  Prng prng(20'261'130);
  for (int round = 0; round < 200'000; ++round) {
    const int64_t slice = 64 * static_cast<int64_t>(64 + prng.below(8192));
    const PlanEntry entry = entry_with(1 + static_cast<int64_t>(prng.below(1 << 24)), slice,
                                       1 + static_cast<int>(prng.below(4)));
    const ProgramShape shape = {.chunk_count = 1 + static_cast<int>(prng.below(256)),
                                .recv_stream_count = static_cast<int>(prng.below(512)),
                                .message_chunk_count = 1 + static_cast<int>(prng.below(4))};
    const int64_t count = static_cast<int64_t>(prng.next() >> (24 + prng.below(40)));
    const int64_t element_bytes = int64_t{1} << prng.below(4);
    const int64_t park_limit = int64_t{1} << (16 + prng.below(16));
    const Result<CallPlan> made = plan_call(entry, shape, count, element_bytes, park_limit);
    const int64_t owners =
        2 * entry.channel_sets * std::max(shape.recv_stream_count, 1) * shape.message_chunk_count;
    const int64_t chunk = (count + shape.chunk_count - 1) / shape.chunk_count * element_bytes;
    if (!made.is_ok()) {
      ASSERT_LT(park_limit, owners * std::min<int64_t>(4096, (chunk + 63) / 64 * 64));
      continue;
    }
    const CallPlan& plan = made.value();
    ASSERT_EQ(plan.slice_bytes % 64, 0);
    ASSERT_LE(plan.slice_bytes, entry.slice_bytes);
    ASSERT_LE(1, plan.iteration_count);
    ASSERT_LE(1, plan.instance_count);
    ASSERT_LE(plan.instance_count, 32);
    const __int128_t covered =
        __int128_t{plan.iteration_count} * plan.instance_count * plan.slice_bytes;
    ASSERT_TRUE(covered >= chunk) << "round " << round;
    ASSERT_LE(owners * plan.instance_count * plan.slice_bytes,
              chunk == 0 ? owners * 64 : park_limit)
        << "round " << round;
  }
}

TEST(ProgramShape, CountsTheStreamsOfTheBusiestRankAndTheLargestMessage) {
  Program program;
  program.chunk_count = 3;
  const Span two{.rank = 0, .index = 0, .count = 2};
  const Span three{.rank = 0, .index = 0, .count = 3};
  const Step send{.opcode = Opcode::Send, .sources = {two}, .destinations = {}, .dependences = {}};
  const Step recv{.opcode = Opcode::Recv, .sources = {}, .destinations = {two}, .dependences = {}};
  const Step copy{
      .opcode = Opcode::Copy, .sources = {three}, .destinations = {three}, .dependences = {}};
  program.ranks.push_back({.lanes = {{.send_peer = 1, .steps = {send, copy}}}});
  program.ranks.push_back({.lanes = {{.recv_peer = 0, .channel = 0, .steps = {recv}},
                                     {.recv_peer = 0, .channel = 1, .steps = {recv}}}});
  EXPECT_EQ(measure_shape(program),
            (ProgramShape{.chunk_count = 3, .recv_stream_count = 2, .message_chunk_count = 2}));
}

}  // namespace
}  // namespace mccl
