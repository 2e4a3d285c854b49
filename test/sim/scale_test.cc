// Hundreds of ranks in one process: everybody connects to whom it needs at once, and sums are
// exact.
#include <gtest/gtest.h>

#include <string>

#include "sim/timed_all_reduce.h"

namespace mccl {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(TwoHundredRanks, SumAMebibyteExactlyAroundARing) {
  SimGroup group(200, {}, paper_fleet("ring"));
  Tensors tensors(200);
  ASSERT_GT(time_all_reduce(group, tensors, kMiB), 0);
  EXPECT_EQ(judge_sums(tensors), "");
}

TEST(TwoHundredRanks, SumAMebibyteExactlyInTwoLevels) {
  SimGroup group(200, {}, paper_fleet("two_level_ring:16"));
  Tensors tensors(200);
  ASSERT_GT(time_all_reduce(group, tensors, kMiB), 0);
  EXPECT_EQ(judge_sums(tensors), "");
}

TEST(TwoHundredRanks, SumAMebibyteExactlyBetweenAllPairs) {
  SimGroup group(200, {}, paper_fleet("all_pairs"));
  Tensors tensors(200);
  ASSERT_GT(time_all_reduce(group, tensors, kMiB), 0);
  EXPECT_EQ(judge_sums(tensors), "");
}

}  // namespace
}  // namespace mccl
