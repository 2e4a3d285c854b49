#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "hand_off/threads_run.h"
#include "sim/device_thread.h"
#include "support/tcp_group.h"

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

// With a rule broken there is a race, which the thread sanitizer reports: scripts/sanitize.sh runs
// hand_off_threads for that.
#if defined(__SANITIZE_THREAD__)
constexpr bool kReportsRaces = true;
#else
constexpr bool kReportsRaces = false;
#endif

TEST(HandOffThreads, AProducerThatIsNotAwaitedIsSeen) {
  if (kReportsRaces) GTEST_SKIP() << "a race is reported: scripts/sanitize.sh expects that";
  const ThreadsOutcome outcome = run_threads({.fault = sim::HandOffFault::EarlyProducer});
  EXPECT_GT(outcome.violations, 0u);
}

TEST(HandOffThreads, AConsumerThatDoesNotWaitIsSeen) {
  if (kReportsRaces) GTEST_SKIP() << "a race is reported: scripts/sanitize.sh expects that";
  const ThreadsOutcome outcome = run_threads({.fault = sim::HandOffFault::NoConsumerWait});
  EXPECT_GT(outcome.violations, 0u);
}

// A device that is always ready, and says when its stream may go on.
class ReadyDevice final : public HandOff {
 public:
  Result<uint64_t> signal_producer() override { return 1; }
  Status wait_consumer(uint64_t) override { return Status::ok(); }
  bool await_producer(uint64_t, std::function<void()>) override { return true; }
  void raise_consumer(uint64_t) override { raised_.set_value(); }
  bool is_raised_within(std::chrono::seconds limit) {
    return raised_.get_future().wait_for(limit) == std::future_status::ready;
  }

 private:
  std::promise<void> raised_;
};

// The caller has said that it waits, but its stream does; the endpoint's thread sleeps at the
// sockets without a limit, and nothing comes that would wake it.
TEST(HandOffThreads, AStreamsWaitIsLimitedWhereNobodyDrives) {
  std::promise<void> is_over;
  run_tcp_ranks(
      2,
      [&](Communicator& communicator) {
        if (communicator.rank() == 1) return is_over.get_future().wait();
        sim::DeviceThread idles({});
        idles.device().encode({.name = "long after any call", .duration_ns = 50 * kNsPerMs});
        idles.device().synchronize();
        const auto device = std::make_shared<ReadyDevice>();
        float value = 1;
        const auto work = communicator
                              .all_reduce(&value, &value, 1, DataType::Float32, ReduceOp::Sum,
                                          {.hand_off = device, .will_wait = true})
                              .value();
        ASSERT_TRUE(work->wait_on_stream().value());
        EXPECT_TRUE(device->is_raised_within(std::chrono::seconds(10)));
        is_over.set_value();
        EXPECT_EQ(work->wait().code(), StatusCode::Timeout);
      },
      {{"MCCL_LOG", "error"}, {"MCCL_DEVICE_WAIT", "0.2"}});
}

}  // namespace
}  // namespace mccl
