// Two ranks that name different lengths for the same bytes: both learn it, whatever the slices are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using Works = std::vector<std::shared_ptr<Work>>;

constexpr int kRanks = 3;

// Rank 0 sends `sent` bytes to rank 1, which has room for `room`; all other blocks have 8.
Works exchange(SimGroup& group, std::vector<std::vector<std::byte>>& memory, int64_t sent,
               int64_t room) {
  Works works;
  memory.assign(2 * kRanks * kRanks, {});
  auto next = memory.begin();
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<InputBlock> inputs;
    std::vector<OutputBlock> outputs;
    for (int peer = 0; peer < kRanks; ++peer) {
      const int64_t input = rank == 0 && peer == 1 ? sent : 8;
      const int64_t output = rank == 1 && peer == 0 ? room : 8;
      next->resize(static_cast<size_t>(input));
      inputs.push_back({(next++)->data(), input});
      next->resize(static_cast<size_t>(output));
      outputs.push_back({(next++)->data(), output});
    }
    works.push_back(group.communicator(rank).all_to_all(inputs, outputs, DataType::UInt8).value());
  }
  return works;
}

TEST(LengthMismatch, OfAnAllToAllIsSeenByBothEnds) {
  constexpr int64_t kKiB = 1024;
  for (const int64_t slice : {4 * kKiB, 64 * kKiB, 256 * kKiB})
    for (const auto& [sent, room] :
         std::vector<std::pair<int64_t, int64_t>>{{8, 0},
                                                  {0, 8},
                                                  {128 * kKiB, 64 * kKiB},
                                                  {64 * kKiB, 128 * kKiB},
                                                  {512 * kKiB, 64 * kKiB},
                                                  {1024 * kKiB, 256 * kKiB},
                                                  {256 * kKiB, 1024 * kKiB},
                                                  {100 * kKiB, 50 * kKiB},
                                                  {50 * kKiB, 100 * kKiB},
                                                  {64 * kKiB, 64 * kKiB - 1},
                                                  {65 * kKiB, 64 * kKiB}}) {
      SCOPED_TRACE(std::to_string(sent) + " to " + std::to_string(room) + " in slices of " +
                   std::to_string(slice));
      SimGroup group(kRanks, {},
                     {.settings = {{"MCCL_LOG", "warning"}},
                      .portions = PlanPortions{slice, slice},
                      .prover = nullptr});
      std::vector<std::vector<std::byte>> memory;
      const Works works = exchange(group, memory, sent, room);
      ASSERT_TRUE(group.run(works)) << "stuck";
      for (const int rank : {0, 1}) {
        const Status status = works[static_cast<size_t>(rank)]->status();
        // Whoever had all that it needed learns it with the next call.
        const Status known = status.is_ok() ? [&] {
          std::vector<float> value(1);
          const Result<std::shared_ptr<Work>> next = group.communicator(rank).all_reduce(
              value.data(), value.data(), 1, DataType::Float32, ReduceOp::Sum);
          if (!next.is_ok()) return next.status();
          EXPECT_TRUE(group.run({next.value()})) << "stuck";
          return next.value()->status();
        }() : status;
        EXPECT_EQ(known.code(), StatusCode::Mismatch) << "rank " << rank << known.to_string();
        EXPECT_THAT(known.message(), HasSubstr("name different counts"));
      }
      EXPECT_FALSE(works[1]->status().is_ok());
    }
}

TEST(LengthMismatch, OfALargeBroadcastIsSeenThoughNothingCanBeSent) {
  SimGroup group(2, {});
  std::vector<float> large(50'000, 1), small(12'500, 2);
  Works works;
  works.push_back(
      group.communicator(0).broadcast(large.data(), 50'000, DataType::Float32, 0).value());
  works.push_back(
      group.communicator(1).broadcast(small.data(), 12'500, DataType::Float32, 0).value());
  ASSERT_TRUE(group.run(works)) << "stuck";
  for (const std::shared_ptr<Work>& work : works) {
    EXPECT_EQ(work->status().code(), StatusCode::Mismatch);
    EXPECT_THAT(work->status().message(),
                AnyOf(HasSubstr("count 50000 against 12500"), HasSubstr("count 12500 against")));
  }
}

TEST(LengthMismatch, OfEqualBlocksThatAreForwardedIsSeen) {
  for (const auto& [left, right] : std::vector<std::pair<int64_t, int64_t>>{{8, 16}, {16, 8}}) {
    SimGroup group(2, {}, {.settings = {{"MCCL_ALGO", "bruck"}}, .portions = {}, .prover = {}});
    std::vector<std::byte> memory(256);
    Works works;
    for (int rank = 0; rank < 2; ++rank) {
      const int64_t count = rank == 0 ? left : right;
      std::byte* data = memory.data() + 128 * rank;
      works.push_back(group.communicator(rank)
                          .all_to_all({{data, count}, {data + count, count}},
                                      {{data + 64, count}, {data + 64 + count, count}},
                                      DataType::UInt8)
                          .value());
    }
    ASSERT_TRUE(group.run(works)) << "stuck";
    for (const std::shared_ptr<Work>& work : works) {
      EXPECT_EQ(work->status().code(), StatusCode::Mismatch);
      EXPECT_THAT(work->status().message(), HasSubstr("lengths of the ranks' blocks"));
    }
  }
}

}  // namespace
}  // namespace mccl
