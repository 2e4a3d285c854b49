// Laws L2, L3 and L9 between operations of one communicator: hand-over, admission, fingerprints.
#include <gtest/gtest.h>

#include "algorithms/catalog.h"
#include "sim_calls.h"
#include "transport/frame.h"

namespace mccl {
namespace {

TEST(Operations, PassASendEndOnWhileTheyStillWaitForAMessage) {
  // Rank 1 makes no calls. Recursive doubling sends and then waits for the peer's message, in one
  // lane; the next call on the same streams sends without waiting for the lane to be free.
  SimGroup group(2, {}, forced("all_reduce_recursive_doubling"));
  const int sets = find_algorithm("all_reduce_recursive_doubling")->channel_sets;
  std::vector<std::vector<float>> data(static_cast<size_t>(sets) + 1, std::vector<float>(2, 1));
  Works works;
  for (auto& own : data) works.push_back(all_reduce(group, 0, own, own));
  EXPECT_FALSE(group.run(works));
  EXPECT_EQ(group.communicator(0).stats().bytes_sent,
            data.size() * (sizeof(FrameHeader) + 2 * sizeof(float)));
  std::vector<std::vector<float>> theirs(data.size(), std::vector<float>(2, 2));
  for (auto& own : theirs) works.push_back(all_reduce(group, 1, own, own));
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(data.back(), (std::vector<float>{3, 3}));
}

TEST(Operations, ShareAStreamInTicketOrder) {
  // Five rings use four sets of streams. A ring of two ranks sends its last message only after it
  // has received one: the fifth has to wait for the first.
  SimGroup group(2, {}, forced("all_reduce_ring"));
  std::vector<std::vector<float>> data(5, std::vector<float>(2, 1));
  Works works;
  for (auto& own : data) works.push_back(all_reduce(group, 0, own, own));
  EXPECT_FALSE(group.run(works));
  EXPECT_EQ(group.communicator(0).stats().bytes_sent, 4 * (sizeof(FrameHeader) + sizeof(float)));
}

TEST(Operations, OnTheSameMemoryRunOneAfterTheOther) {
  SimGroup group(2, {}, forced("all_reduce_ring"));
  std::vector<std::vector<float>> data(2, std::vector<float>(100'000, 1));
  Works works;
  for (int call = 0; call < 4; ++call)
    for (size_t rank = 0; rank < 2; ++rank)
      works.push_back(all_reduce(group, static_cast<int>(rank), data[rank], data[rank]));
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(first_difference(data[0], 16), -1);
  EXPECT_EQ(first_difference(data[1], 16), -1);
}

TEST(Operations, KeepTheirTicketOrderAtStreamsThatAnEarlierOneWaitsFor) {
  // On rank 0 calls 0 and 1 use the same memory, so 1 must wait; 5 has memory of its own and shares
  // its streams with 1. On rank 1 nothing overlaps.
  SimGroup group(2, {}, forced("all_reduce_ring"));
  std::vector<std::vector<float>> mine(6, std::vector<float>(50'000, 1));
  std::vector<std::vector<float>> theirs(6, std::vector<float>(50'000, 2));
  Works works;
  for (size_t call = 0; call < 6; ++call) {
    std::vector<float>& shared = call == 1 ? mine[0] : mine[call];
    works.push_back(all_reduce(group, 0, shared, shared));
  }
  for (size_t call = 0; call < 6; ++call)
    works.push_back(all_reduce(group, 1, theirs[call], theirs[call]));
  ASSERT_NO_FATAL_FAILURE(finish(group, works));
  EXPECT_EQ(first_difference(mine[0], 5), -1);  // (1 + 2) + 2
  EXPECT_EQ(first_difference(theirs[0], 3), -1);
  EXPECT_EQ(first_difference(theirs[1], 5), -1);
  EXPECT_EQ(first_difference(mine[5], 3), -1);
}

TEST(Operations, ThatDifferBetweenRanksEndTheCommunicatorInWords) {
  SimGroup group(2, {}, forced("all_reduce_ring"));
  std::vector<float> mine(8, 1), theirs(8, 1);
  const Works works = {all_reduce(group, 0, mine, mine, ReduceOp::Sum),
                       all_reduce(group, 1, theirs, theirs, ReduceOp::Max)};
  EXPECT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works) {
    EXPECT_EQ(work->status().code(), StatusCode::Mismatch);
    EXPECT_NE(work->status().message().find("operation 0 differs between rank"), std::string::npos)
        << work->status().message();
  }
}

// Rank 0 has made no call: it is told of two by others, and names these two.
TEST(Operations, OfTwoOthersThatDifferNameThoseTwo) {
  SimGroup group(3, {});
  std::vector<float> data(8, 1);
  for (const int rank : {1, 2})
    (void)group.communicator(rank).gather(data.data(), rank, {}, DataType::Float32, 0);
  group.world().run([] { return false; });
  const std::string cause = group.communicator(0).barrier({}).status().message();
  const std::string first = "gather(float32, root 0, 3 elements)";
  const std::string second = "gather(float32, root 0, 6 elements)";
  const std::string end = "; all ranks must make the same calls in the same order";
  EXPECT_TRUE(cause == "operation 0 differs between rank 1 and rank 2: " + first + " against " +
                           second + ": count 3 against 6" + end ||
              cause == "operation 0 differs between rank 2 and rank 1: " + second + " against " +
                           first + ": count 6 against 3" + end)
      << cause;
}

TEST(Operations, ThatMatchInAllButTheCountAreAMismatch) {
  SimGroup group(2, {}, forced("all_reduce_ring"));
  std::vector<float> mine(8, 1), theirs(7, 1);  // the same chunks after rounding up: 4 and 4
  const Works works = {all_reduce(group, 0, mine, mine), all_reduce(group, 1, theirs, theirs)};
  EXPECT_TRUE(group.run(works));
  EXPECT_EQ(works[0]->status().code(), StatusCode::Mismatch);
  EXPECT_EQ(works[1]->status().code(), StatusCode::Mismatch);
}

}  // namespace
}  // namespace mccl
