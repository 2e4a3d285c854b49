// Laws L1 and L3 of a single operation: order inside lanes, credit, capture, empty messages.
#include <gtest/gtest.h>

#include "sim_calls.h"
#include "transport/frame.h"

namespace mccl {
namespace {

constexpr PlanPortions kSlicesOf64Bytes = {.slice_bytes = 64, .window_bytes = 64};

// What all ranks hold after one sum over `rank_count` ranks, rank r giving r + 1.
void expect_exact_sum(int rank_count, size_t count, SimGroup& group) {
  std::vector<std::vector<float>> data;
  for (int rank = 0; rank < rank_count; ++rank)
    data.emplace_back(count, static_cast<float>(rank + 1));
  Works works;
  for (int rank = 0; rank < rank_count; ++rank) {
    auto& own = data[static_cast<size_t>(rank)];
    works.push_back(all_reduce(group, rank, own, own));
  }
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  const auto sum = static_cast<float>(rank_count * (rank_count + 1) / 2);
  for (int rank = 0; rank < rank_count; ++rank)
    EXPECT_EQ(first_difference(data[static_cast<size_t>(rank)], sum), -1) << "rank " << rank;
}

TEST(Interpreter, EndsWithManyMoreSlicesThanCredits) {
  // 64 slices of a chunk, two messages outstanding per stream: a lane that ran its first step on
  // all slices first would wait for credit that nobody can give.
  SimGroup group(4, {}, forced("all_reduce_ring", kSlicesOf64Bytes));
  expect_exact_sum(4, 4 * 64 * 16, group);
}

TEST(Interpreter, SendsNoMoreThanItsCredit) {
  // A root that only sends, and a peer that has not called yet.
  SimGroup group(2, {}, forced("broadcast_binomial_tree", kSlicesOf64Bytes));
  std::vector<float> mine(16 * 16, 4), theirs(16 * 16, 0);
  const auto broadcast = [&](int rank, std::vector<float>& data) {
    return group.communicator(rank)
        .broadcast(data.data(), static_cast<int64_t>(data.size()), DataType::Float32, 0)
        .value();
  };
  Works works = {broadcast(0, mine)};
  EXPECT_FALSE(group.run(works));
  EXPECT_EQ(group.communicator(0).stats().bytes_sent, 2 * (sizeof(FrameHeader) + 64));
  works.push_back(broadcast(1, theirs));
  group.world().wires(1).wake();  // as the endpoint's thread would: credits go when it is idle
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(theirs, mine);
}

TEST(Interpreter, SendsEmptyMessagesToo) {
  // Two elements on four ranks: half of all chunks are empty.
  SimGroup group(4, {}, forced("all_reduce_ring"));
  expect_exact_sum(4, 2, group);
}

TEST(Interpreter, ReducesNothingOfNothing) {
  SimGroup group(3, {}, forced("all_reduce_ring"));
  expect_exact_sum(3, 0, group);
}

TEST(Interpreter, WaitsForTheCaptureOfWhatItOverwrites) {
  // Recursive doubling sends its buffer by reference and then reduces into it. Rank 0's port is
  // busy with a broadcast, so it has the peer's bytes long before its own have left.
  SimGroup group(2, {.latency_ns = 100, .queue_bytes_max = 64 * 1024, .reads_late = true},
                 forced("all_reduce_recursive_doubling"));
  const size_t other = group.add_communicator("other");
  constexpr int64_t kBulk = 8 << 20;
  std::vector<std::vector<float>> bulk(2, std::vector<float>(kBulk, 5));
  std::vector<std::vector<float>> data(2, std::vector<float>(1 << 18, 6));
  Works works;
  for (int rank = 0; rank < 2; ++rank)
    works.push_back(
        group.communicator(rank, other)
            .broadcast(bulk[static_cast<size_t>(rank)].data(), kBulk, DataType::Float32, 0)
            .value());
  for (int rank = 0; rank < 2; ++rank) {
    auto& own = data[static_cast<size_t>(rank)];
    works.push_back(all_reduce(group, rank, own, own));
  }
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(first_difference(data[0], 12), -1);
  EXPECT_EQ(first_difference(data[1], 12), -1);
}

TEST(Interpreter, LeavesTheInputOfAnOutOfPlaceCallAlone) {
  SimGroup group(3, {}, forced("all_reduce_ring"));
  std::vector<std::vector<float>> inputs(3, std::vector<float>(1'000, 1));
  std::vector<std::vector<float>> outputs(3, std::vector<float>(1'000, -7));
  Works works;
  for (size_t rank = 0; rank < 3; ++rank)
    works.push_back(all_reduce(group, static_cast<int>(rank), inputs[rank], outputs[rank]));
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(first_difference(inputs[rank], 1), -1);
    EXPECT_EQ(first_difference(outputs[rank], 3), -1);
  }
}

TEST(Interpreter, DividesAnAverageAfterItsLastBytesHaveLeft) {
  // Rank 0's port is busy with a broadcast, so the bytes of its sums leave late: long after it has
  // received everything that it waits for.
  SimGroup group(2, {.latency_ns = 100, .queue_bytes_max = 64 * 1024, .reads_late = true},
                 forced("all_reduce_ring", PlanPortions{64 * 1024, 64 * 1024}));
  const size_t other = group.add_communicator("other");
  constexpr int64_t kBulk = 8 << 20;
  std::vector<std::vector<float>> bulk(2, std::vector<float>(kBulk, 5));
  constexpr int64_t kCount =
      16 * 1024;  // messages that are not small take turns with the broadcast's
  std::vector<std::vector<float>> data(2, std::vector<float>(kCount, 6));
  Works works;
  for (int rank = 0; rank < 2; ++rank)
    works.push_back(
        group.communicator(rank, other)
            .broadcast(bulk[static_cast<size_t>(rank)].data(), kBulk, DataType::Float32, 0)
            .value());
  for (int rank = 0; rank < 2; ++rank) {
    auto& own = data[static_cast<size_t>(rank)];
    works.push_back(all_reduce(group, rank, own, own, ReduceOp::Avg));
  }
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(first_difference(data[0], 6), -1);
  EXPECT_EQ(first_difference(data[1], 6), -1);
}

}  // namespace
}  // namespace mccl
