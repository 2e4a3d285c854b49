#include "perf/test_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "perf/perf_call.h"

namespace mccl {
namespace {

template <class T>
std::vector<T> elements_of(const Pattern& pattern) {
  std::vector<T> elements(pattern.size() / sizeof(T));
  std::memcpy(elements.data(), pattern.data(), pattern.size());
  return elements;
}

TEST(TestData, FoldsAreThoseOfTheValues) {
  // 3 ranks, floats: values are (7 place + 11 rank + 13 iteration) mod 65.
  const PatternKey key{.rank_count = 3, .iteration = 2};
  EXPECT_EQ(pattern_value(key, 0, 5), 61);
  EXPECT_EQ(pattern_value(key, 1, 5), 7);
  EXPECT_EQ(pattern_value(key, 2, 5), 18);
  EXPECT_EQ(folded_value(key, 5), 86);
  EXPECT_EQ(elements_of<float>(make_folded_pattern(key))[5], 86.0F);
  EXPECT_EQ(elements_of<float>(make_pattern(key, 2))[5], 18.0F);
}

TEST(TestData, IsExactInNarrowTypes) {
  const PatternKey key{.dtype = DataType::Float16, .rank_count = 2, .iteration = 1};
  // 48 is 1.5 * 2^5: exponent 20, mantissa 0x200.
  ASSERT_EQ(pattern_value(key, 0, 5), 48);
  EXPECT_EQ(elements_of<uint16_t>(make_pattern(key, 0))[5], 0x5200);
  const PatternKey brain{.dtype = DataType::BFloat16, .rank_count = 2, .iteration = 1};
  EXPECT_EQ(elements_of<uint16_t>(make_pattern(brain, 0))[5], 0x4240);
  // 13 mod 65, 7 * 52 + 13 = 377 = 5 * 65 + 52.
  EXPECT_EQ(pattern_value(key, 0, 0), 13);
  for (const int rank_count : {2, 7, 40, 200, 300})
    for (const DataType dtype : {DataType::BFloat16, DataType::Float16, DataType::Int8})
      for (int64_t place = 0; place < kPatternElements; ++place) {
        const PatternKey one{.dtype = dtype, .rank_count = rank_count, .iteration = 3};
        const int64_t limit = dtype == DataType::Float16 ? 2048 : 256;
        ASSERT_LE(folded_value(one, place), limit) << rank_count << " " << place;
      }
}

TEST(TestData, AveragesAreWholeNumbers) {
  for (int rank_count = 1; rank_count < 20; ++rank_count)
    for (int64_t place = 0; place < kPatternElements; ++place) {
      const PatternKey key{.dtype = DataType::UInt8,
                           .op = ReduceOp::Avg,
                           .rank_count = rank_count,
                           .iteration = place};
      int64_t sum = 0;
      for (int rank = 0; rank < rank_count; ++rank) {
        ASSERT_GE(pattern_value(key, rank, place), 0);
        sum += pattern_value(key, rank, place);
      }
      ASSERT_LE(sum, 255);
      ASSERT_EQ(folded_value(key, place) * rank_count, sum);
    }
}

TEST(TestData, ProductsMinimaAndMaxima) {
  const PatternKey product{.op = ReduceOp::Product, .rank_count = 12};
  // Ranks 0, 2, 4 and 6 at an even place, 1, 3, 5 and 7 at an odd one.
  EXPECT_EQ(folded_value(product, 0), 16);
  EXPECT_EQ(folded_value(product, 1), 16);
  const PatternKey least{.op = ReduceOp::Min, .rank_count = 3};
  const PatternKey most{.op = ReduceOp::Max, .rank_count = 3};
  // 70, 99 and 128 mod 101.
  EXPECT_EQ(folded_value(least, 10), 27);
  EXPECT_EQ(folded_value(most, 10), 99);
}

TEST(TestData, DiffersBetweenRanksAndIterations) {
  std::set<int64_t> seen;
  for (int rank = 0; rank < 4; ++rank)
    for (int64_t iteration = 0; iteration < 4; ++iteration)
      seen.insert(
          pattern_value({.is_reduced = false, .rank_count = 4, .iteration = iteration}, rank, 0));
  EXPECT_EQ(seen.size(), 16u);
}

TEST(TestData, RepeatsFromAnyElementAndEveryWrongOneIsCounted) {
  const Pattern pattern = make_pattern({.dtype = DataType::Int32, .rank_count = 2}, 1);
  const auto values = elements_of<int32_t>(pattern);
  std::vector<int32_t> data(2500);
  auto* const bytes = reinterpret_cast<std::byte*>(data.data());
  fill_pattern(pattern, 1000, 2500, bytes);
  EXPECT_EQ(data[0], values[1000]);
  EXPECT_EQ(data[8], values[1008]);
  EXPECT_EQ(data[9], values[0]);
  EXPECT_EQ(data[2499], values[3499 % 1009]);
  EXPECT_EQ(count_wrong(pattern, 1000, 2500, bytes), 0);
  data[0] += 1;
  data[1200] += 1;
  data[2499] += 1;
  EXPECT_EQ(count_wrong(pattern, 1000, 2500, bytes), 3);
  EXPECT_EQ(count_wrong(pattern, 1000, 2499, bytes), 2);
}

TEST(CallLayouts, RoundBlocksDownTo16Bytes) {
  EXPECT_EQ(layout_of(Collective::AllReduce, 1003, 4, DataType::Float32),
            (CallLayout{.count = 250, .input_count = 250, .output_count = 250, .bytes = 1000}));
  EXPECT_EQ(layout_of(Collective::AllGather, 1003, 4, DataType::Float32),
            (CallLayout{.count = 60, .input_count = 60, .output_count = 240, .bytes = 960}));
  EXPECT_EQ(layout_of(Collective::ReduceScatter, 1003, 4, DataType::Int8),
            (CallLayout{.count = 240, .input_count = 960, .output_count = 240, .bytes = 960}));
  EXPECT_EQ(layout_of(Collective::AllToAll, 8, 4, DataType::Float32), (CallLayout{}));
}

}  // namespace
}  // namespace mccl
