#include <gtest/gtest.h>

#include "hand_off/threads_run.h"

namespace mccl {
namespace {

TEST(HandOffThreads, EveryBucketIsExactAndNobodyWaitsOnTheHost) {
  for (const TimeNs kernel_ns : {TimeNs{0}, TimeNs{200'000}}) {
    const ThreadsOutcome outcome = run_threads({.kernel_ns = kernel_ns});
    EXPECT_EQ(outcome.wrong_elements, 0u);
    EXPECT_EQ(outcome.violations, 0u);
    EXPECT_EQ(outcome.drains, 0u);
  }
}

// The burst of the paper, section 6.1: 640 asynchronous calls with every host synchronisation
// removed.
class Burst : public testing::TestWithParam<int> {};

TEST_P(Burst, IsExact) {
  const ThreadsOutcome outcome = run_threads(
      {.rank_count = GetParam(), .bucket_count = 640, .bucket_elements = 257, .kernel_ns = 1'000});
  EXPECT_EQ(outcome.wrong_elements, 0u);
  EXPECT_EQ(outcome.violations, 0u);
  EXPECT_EQ(outcome.drains, 0u);
  EXPECT_GT(outcome.device_waits, 0u);
}

INSTANTIATE_TEST_SUITE_P(HandOffThreads, Burst, testing::Values(8, 24));

TEST(HandOffThreads, AProducerThatIsNotAwaitedIsSeen) {
  const ThreadsOutcome outcome = run_threads({.fault = sim::HandOffFault::EarlyProducer});
  EXPECT_GT(outcome.violations, 0u);
}

TEST(HandOffThreads, AConsumerThatDoesNotWaitIsSeen) {
  const ThreadsOutcome outcome = run_threads({.fault = sim::HandOffFault::NoConsumerWait});
  EXPECT_GT(outcome.violations, 0u);
}

}  // namespace
}  // namespace mccl
