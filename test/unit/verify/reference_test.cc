#include "verify/reference.h"

#include <gtest/gtest.h>

#include <cstring>

#include "support/program_fixtures.h"

namespace mccl {
namespace {

template <typename T>
Bytes to_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> from_bytes(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using Integers = std::vector<int64_t>;

// Rank r's elements are 100 r, 100 r + 1, ...; their sum over n ranks is n i + 100 n (n - 1) / 2.
ReferenceCall make_all_reduce_call(int rank_count, int64_t count) {
  ReferenceCall call;
  call.dtype = DataType::Int64;
  call.block_counts = {count};
  for (int rank = 0; rank < rank_count; ++rank) {
    Integers values;
    for (int64_t i = 0; i < count; ++i) values.push_back(100 * rank + i);
    call.inputs.push_back(to_bytes(values));
  }
  return call;
}

TEST(Reference, EveryAllReduceSumsOnOneToNineRanksAndCountsThatDoNotDivide) {
  for (const ProgramFixture& fixture : program_fixtures()) {
    if (fixture.make(1).collective != Collective::AllReduce) continue;
    for (int rank_count = 1; rank_count <= 9; ++rank_count)
      for (const int64_t count : {0, 1, 2, 7, 20})
        for (const bool in_place : {false, true}) {
          ReferenceCall call = make_all_reduce_call(rank_count, count);
          call.in_place = in_place;
          const auto outputs = execute_reference(fixture.make(rank_count), call);
          ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
          Integers wanted;
          for (int64_t i = 0; i < count; ++i)
            wanted.push_back(rank_count * i + 50 * rank_count * (rank_count - 1));
          ASSERT_EQ(outputs.value().size(), static_cast<size_t>(rank_count));
          for (const Bytes& output : outputs.value())
            EXPECT_EQ(from_bytes<int64_t>(output), wanted)
                << fixture.name << " on " << rank_count << " ranks, count " << count;
        }
  }
}

TEST(Reference, AllGatherConcatenatesBlocksOfDifferentCounts) {
  for (const bool in_place : {false, true}) {
    ReferenceCall call;
    call.dtype = DataType::Int64;
    call.in_place = in_place;
    call.block_counts = {3, 0, 2};
    call.inputs = {to_bytes(Integers{1, 2, 3}), to_bytes(Integers{}), to_bytes(Integers{4, 5})};
    const auto outputs = execute_reference(make_ring_all_gather(3, 2), call);
    ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
    for (const Bytes& output : outputs.value())
      EXPECT_EQ(from_bytes<int64_t>(output), (Integers{1, 2, 3, 4, 5}));
  }
}

TEST(Reference, BroadcastGivesTheRootsInputToAll) {
  for (int rank_count = 1; rank_count <= 9; ++rank_count) {
    ReferenceCall call;
    call.block_counts = {3};
    call.inputs.resize(static_cast<size_t>(rank_count));
    call.inputs[0] = to_bytes(std::vector<float>{1.5f, -2.0f, 8.0f});
    const auto outputs = execute_reference(make_binomial_broadcast(rank_count, 2), call);
    ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
    for (const Bytes& output : outputs.value()) EXPECT_EQ(output, call.inputs[0]);
  }
}

TEST(Reference, ReduceScatterGivesEveryRankTheSumOfItsBlock) {
  for (const auto make : {&make_ring_reduce_scatter, &make_direct_reduce_scatter})
    for (const bool in_place : {false, true}) {
      ReferenceCall call;
      call.dtype = DataType::Int64;
      call.in_place = in_place;
      call.block_counts = {2, 0, 1};
      call.inputs = {to_bytes(Integers{1, 2, 3}), to_bytes(Integers{10, 20, 30}),
                     to_bytes(Integers{100, 200, 300})};
      const auto outputs = execute_reference(make(3), call);
      ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
      EXPECT_EQ(from_bytes<int64_t>(outputs.value()[0]), (Integers{111, 222}));
      EXPECT_EQ(from_bytes<int64_t>(outputs.value()[1]), (Integers{}));
      EXPECT_EQ(from_bytes<int64_t>(outputs.value()[2]), (Integers{333}));
    }
}

TEST(Reference, AllToAllMovesBlocksOfAnyCounts) {
  ReferenceCall call;
  call.dtype = DataType::Int64;
  call.block_counts = {1, 2, 0, 1};  // from 0 to 0, from 0 to 1, ...
  call.inputs = {to_bytes(Integers{1, 2, 3}), to_bytes(Integers{4})};
  const auto outputs = execute_reference(make_pairwise_all_to_all(2, 2), call);
  ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
  EXPECT_EQ(from_bytes<int64_t>(outputs.value()[0]), (Integers{1}));
  EXPECT_EQ(from_bytes<int64_t>(outputs.value()[1]), (Integers{2, 3, 4}));
}

TEST(Reference, GatherGivesTheRootAllBlocksAndTheOthersNothing) {
  ReferenceCall call;
  call.dtype = DataType::Int64;
  call.block_counts = {1, 1, 1};
  call.inputs = {to_bytes(Integers{1}), to_bytes(Integers{2}), to_bytes(Integers{3})};
  const auto outputs = execute_reference(make_direct_gather(3, 2), call);
  ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
  EXPECT_EQ(from_bytes<int64_t>(outputs.value()[0]), (Integers{1, 2, 3}));
  EXPECT_TRUE(outputs.value()[1].empty());
  EXPECT_TRUE(outputs.value()[2].empty());
}

TEST(Reference, AverageIsASumAndOneDivision) {
  ReferenceCall call = make_all_reduce_call(3, 2);
  call.op = ReduceOp::Avg;
  call.inputs[2] = to_bytes(Integers{-305, 1});
  const auto outputs = execute_reference(make_ring_all_reduce(3), call);
  ASSERT_TRUE(outputs.is_ok());
  // (0 + 100 - 305) / 3 toward zero, (1 + 101 + 1) / 3.
  EXPECT_EQ(from_bytes<int64_t>(outputs.value()[1]), (Integers{-68, 34}));
}

TEST(Reference, AFoldOfBFloat16RoundsOnceAndARingAtEveryHop) {
  ReferenceCall call;
  call.dtype = DataType::BFloat16;
  call.block_counts = {1};
  using Halves = std::vector<uint16_t>;
  call.inputs = {to_bytes(Halves{0x3f80}), to_bytes(Halves{0x3b80}), to_bytes(Halves{0x3b80})};
  const auto folded = execute_reference(make_all_pairs_all_reduce(3), call);
  const auto chained = execute_reference(make_ring_all_reduce(3), call);
  EXPECT_EQ(from_bytes<uint16_t>(folded.value()[0]), (Halves{0x3f81}));
  EXPECT_EQ(from_bytes<uint16_t>(chained.value()[0]), (Halves{0x3f80}));
}

TEST(Reference, RefusesCallsThatDoNotFitTheProgram) {
  const Program program = make_ring_all_reduce(2);
  ReferenceCall call = make_all_reduce_call(2, 3);
  call.block_counts = {4};
  EXPECT_EQ(execute_reference(program, call).status().to_string(),
            "invalid argument: rank 0's input has 24 bytes; its blocks have 32");
  call.block_counts = {3, 3};
  EXPECT_EQ(execute_reference(program, call).status().to_string(),
            "invalid argument: the call has 2 block counts; the program has 1 block");
  call = make_all_reduce_call(3, 3);
  EXPECT_EQ(execute_reference(program, call).status().to_string(),
            "invalid argument: the call has 3 inputs; the program has 2 ranks");
  Program out_of_place = program;
  out_of_place.in_place = false;
  call = make_all_reduce_call(2, 3);
  call.in_place = true;
  EXPECT_EQ(execute_reference(out_of_place, call).status().to_string(),
            "invalid argument: the program does not serve in-place calls");
}

TEST(Reference, NamesTheStepsThatWaitInADeadlock) {
  Program program = make_ring_all_reduce(2);
  program.ranks[1].lanes[0].steps.pop_back();
  program.ranks[1].lanes[0].steps.pop_back();
  EXPECT_EQ(execute_reference(program, make_all_reduce_call(2, 2)).status().to_string(),
            "internal: the program cannot go on; these steps wait:\n"
            "  rank 0 lane 0 step 2: recv output[0] <- message from 1 on channel 0");
}

TEST(Reference, RefusesMessagesThatNobodyTakes) {
  Program program = make_ring_all_reduce(2);
  program.ranks[1].lanes[0].steps.pop_back();
  EXPECT_EQ(execute_reference(program, make_all_reduce_call(2, 2)).status().to_string(),
            "internal: the stream from rank 0 to rank 1 on channel 0 ends with 1 message in it");
}

TEST(Reference, RefusesToReadWhatWasNeverWritten) {
  Program program = make_ring_all_reduce(1);
  program.ranks[0].scratch_chunk_count = 1;
  program.ranks[0].lanes[0].steps[0].sources[0] = scratch_span(0, 0);
  EXPECT_EQ(
      execute_reference(program, make_all_reduce_call(1, 2)).status().to_string(),
      "internal: rank 0 lane 0 step 0: copy output[0] <- scratch[0]: reads scratch[0], of which "
      "chunk 0 was never written");
}

TEST(Reference, RefusesAChunkThatDoesNotFitItsPlace) {
  Program program = make_ring_all_reduce(2);
  for (RankProgram& rank : program.ranks)
    for (Step& step : rank.lanes[0].steps)
      for (Span& span : step.destinations) span.index = 1;
  EXPECT_EQ(
      execute_reference(program, make_all_reduce_call(2, 3)).status().to_string(),
      "internal: rank 1 lane 0 step 1: recv_reduce_copy_send output[1] <- message from 0, "
      "input[0] -> message to 0 on channel 0: writes 2 elements to output[1], of which chunk 0 "
      "has 1");
}

}  // namespace
}  // namespace mccl
