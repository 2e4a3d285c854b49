// The explorer itself: it accepts the fixtures and finds what only some schedules show.
#include "support/schedule_explorer.h"

#include <gtest/gtest.h>

#include "support/program_fixtures.h"
#include "verify/verify.h"

namespace mccl {
namespace {

constexpr int64_t kStateLimit = 20'000;
constexpr int kSampleCount = 200;

TEST(ScheduleExplorer, FindsTheFixturesRightInEveryOrder) {
  for (const ProgramFixture& fixture : program_fixtures())
    for (const int rank_count : {1, 2, 3})
      for (const bool in_place : {false, true}) {
        const Program program = fixture.make(rank_count);
        if (in_place && !program.in_place) continue;  // an all-to-all
        const Exploration exploration =
            explore_schedules(program, verify(program).proof, in_place, kStateLimit, kSampleCount);
        EXPECT_TRUE(exploration.is_right) << fixture.name << ": " << exploration.fault;
        EXPECT_TRUE(exploration.is_exhaustive) << fixture.name;
      }
}

TEST(ScheduleExplorer, FindsThatRecursiveDoublingNeedsItsCaptureWaits) {
  const Program program = make_recursive_doubling_all_reduce(2);
  Proof proof = verify(program).proof;
  EXPECT_TRUE(explore_schedules(program, proof, false, kStateLimit, 0).is_right);
  proof.steps[0][1][1].capture_waits.clear();
  const Exploration exploration = explore_schedules(program, proof, false, kStateLimit, 0);
  EXPECT_FALSE(exploration.is_right);
  EXPECT_TRUE(exploration.is_exhaustive);
}

TEST(ScheduleExplorer, FindsWhatALostDependenceDoes) {
  Program program = make_all_pairs_all_reduce(2);
  const Proof proof = verify(program).proof;
  program.ranks[0].lanes[1].steps[1].dependences.clear();
  EXPECT_FALSE(explore_schedules(program, proof, false, kStateLimit, 0).is_right);
}

}  // namespace
}  // namespace mccl
