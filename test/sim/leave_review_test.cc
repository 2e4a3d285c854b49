// Who learns what when a rank leaves or gives up before its peers have called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::HasSubstr;

SimGroupOptions one_channel_set() {
  return {.settings = {{"MCCL_ALGO", "all_reduce_recursive_doubling"}},
          .portions = std::nullopt,
          .prover = nullptr};
}

Result<std::shared_ptr<Work>> reduce(SimGroup& group, int rank, std::vector<float>& data,
                                     int64_t timeout_ns = -1) {
  CallOptions options;
  options.timeout_ns = timeout_ns;
  return group.communicator(rank).all_reduce(data.data(), data.data(),
                                             static_cast<int64_t>(data.size()), DataType::Float32,
                                             ReduceOp::Sum, std::move(options));
}

TEST(LeaveReview, ACallOnStreamsInUseEndsWhenThePeerHadLeftBefore) {
  SimGroup group(2, {}, one_channel_set());
  std::vector<float> mine(10, 1), theirs(10, 2);
  // Twice as many calls as there can be channel sets, so that every stream has been used.
  for (int call = 0; call < 16; ++call)
    ASSERT_TRUE(group.run({reduce(group, 0, mine).value(), reduce(group, 1, theirs).value()}));
  group.destroy_communicator(1);
  group.world().run([] { return false; });
  const Result<std::shared_ptr<Work>> late = reduce(group, 0, mine);
  ASSERT_TRUE(late.is_ok());
  ASSERT_TRUE(group.run({late.value()})) << "stuck";
  EXPECT_EQ(late.value()->status().code(), StatusCode::PeerLost);
  EXPECT_THAT(late.value()->status().message(), HasSubstr("rank 1"));
}

TEST(LeaveReview, ABroadcastToAPeerThatHasLeftIsAnError) {
  SimGroup group(2, {});
  std::vector<std::vector<float>> data(2, std::vector<float>(10, 1));
  const auto broadcast = [&](int rank) {
    return group.communicator(rank)
        .broadcast(data[static_cast<size_t>(rank)].data(), 10, DataType::Float32, 0)
        .value();
  };
  for (int call = 0; call < 16; ++call) ASSERT_TRUE(group.run({broadcast(0), broadcast(1)}));
  group.destroy_communicator(1);
  group.world().run([] { return false; });
  const std::shared_ptr<Work> late = broadcast(0);
  ASSERT_TRUE(group.run({late})) << "stuck";
  EXPECT_EQ(late->status().code(), StatusCode::PeerLost) << late->status().to_string();
}

TEST(LeaveReview, MessagesOfARankThatHasLeftStillServeLaterCalls) {
  SimGroup group(2, {});
  std::vector<std::vector<float>> data = {std::vector<float>(10, 7), std::vector<float>(10, 0)};
  const auto broadcast = [&](int rank) {
    return group.communicator(rank)
        .broadcast(data[static_cast<size_t>(rank)].data(), 10, DataType::Float32, 0)
        .value();
  };
  ASSERT_TRUE(group.run({broadcast(0), broadcast(0)}));
  group.destroy_communicator(0);
  group.world().run([] { return false; });
  const std::vector<std::shared_ptr<Work>> works = {broadcast(1), broadcast(1)};
  ASSERT_TRUE(group.run(works)) << "stuck";
  for (const std::shared_ptr<Work>& work : works) EXPECT_EQ(work->status().to_string(), "ok");
  EXPECT_EQ(data[1][9], 7);
}

TEST(LeaveReview, AFailureReachesARankThatCallsAfterIt) {
  // Rank 1 waits for rank 0 and gives up.
  SimGroup group(2, {}, one_channel_set());
  std::vector<float> mine(10, 1), theirs(10, 2);
  const std::shared_ptr<Work> early = reduce(group, 1, theirs, kNsPerSecond).value();
  group.world().at(2 * kNsPerSecond, 1, [] {});
  ASSERT_TRUE(group.run({early}));
  ASSERT_EQ(early->status().code(), StatusCode::Timeout);
  // What rank 1 sent before it gave up serves the first call.
  const std::shared_ptr<Work> late = reduce(group, 0, mine).value();
  ASSERT_TRUE(group.run({late})) << "stuck";
  group.world().run([] { return false; });
  EXPECT_EQ(reduce(group, 0, mine).status().message(), early->status().message());
}

TEST(DeadlineReview, TheLargestTimeoutIsNoLimit) {
  SimGroup group(2, {}, one_channel_set());
  std::vector<float> mine(10, 1), theirs(10, 2);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  group.world().at(kNsPerSecond, 0, [] {});
  group.world().run([] { return false; });
  const std::vector<std::shared_ptr<Work>> works = {reduce(group, 0, mine, kLargest).value(),
                                                    reduce(group, 1, theirs, kLargest).value()};
  ASSERT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works) EXPECT_EQ(work->status().to_string(), "ok");
}

}  // namespace
}  // namespace mccl
