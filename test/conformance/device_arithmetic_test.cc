// Law L6, the bits: golden vectors, and random data against integer arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/prng.h"
#include "device_suite.h"
#include "float_oracle.h"

namespace mccl::conformance {
namespace {

class DeviceArithmetic : public DeviceSuite {};
INSTANTIATE_TEST_SUITE_P(Every, DeviceArithmetic, testing::ValuesIn(device_cases()),
                         device_case_name);

using Words = std::vector<uint32_t>;
using Halves = std::vector<uint16_t>;
using Integers = std::vector<uint64_t>;

template <class Bits>
struct GoldenRow {
  Bits left;
  Bits right;
  Bits sum;
  Bits min;
  Bits max;
};

constexpr std::array<GoldenRow<uint32_t>, 18> kFloat32Rows = {{
    {0x3f800000, 0x40000000, 0x40400000, 0x3f800000, 0x40000000},  // 1, 2
    {0x3f800000, 0x33800000, 0x3f800000, 0x33800000, 0x3f800000},  // tie goes down to even
    {0x3f800001, 0x33800000, 0x3f800002, 0x33800000, 0x3f800001},  // tie goes up to even
    {0x00000000, 0x80000000, 0x00000000, 0x80000000, 0x00000000},  // zeros of two signs
    {0x80000000, 0x80000000, 0x80000000, 0x80000000, 0x80000000},
    {0xc0000000, 0x40000000, 0x00000000, 0xc0000000, 0x40000000},  // -2, 2
    {0x00000001, 0x00000001, 0x00000002, 0x00000001, 0x00000001},  // subnormals
    {0x007fffff, 0x00000001, 0x00800000, 0x00000001, 0x007fffff},
    {0x00800000, 0x80000001, 0x007fffff, 0x80000001, 0x00800000},
    {0x7f7fffff, 0x7f7fffff, 0x7f800000, 0x7f7fffff, 0x7f7fffff},  // overflow
    {0x7f7fffff, 0x73000000, 0x7f800000, 0x73000000, 0x7f7fffff},  // overflow by rounding
    {0x7f800000, 0xff800000, 0x7fc00000, 0xff800000, 0x7f800000},  // infinities
    {0x7f800000, 0x3f800000, 0x7f800000, 0x3f800000, 0x7f800000},
    {0x7fc12345, 0x3f800000, 0x7fc00000, 0x7fc00000, 0x7fc00000},  // quiet NaN with a payload
    {0xffc00001, 0x7fc00002, 0x7fc00000, 0x7fc00000, 0x7fc00000},  // two NaN
    {0x7f800001, 0xff800000, 0x7fc00000, 0x7fc00000, 0x7fc00000},  // signalling NaN
    {0xffffffff, 0x00000000, 0x7fc00000, 0x7fc00000, 0x7fc00000},
    {0x7fffffff, 0x7f800000, 0x7fc00000, 0x7fc00000, 0x7fc00000},
}};

constexpr std::array<GoldenRow<uint16_t>, 15> kBFloat16Rows = {{
    {0x3f80, 0x4000, 0x4040, 0x3f80, 0x4000},  // 1, 2
    {0x3f80, 0x3b80, 0x3f80, 0x3b80, 0x3f80},  // tie goes down to even
    {0x3f81, 0x3b80, 0x3f82, 0x3b80, 0x3f81},  // tie goes up to even
    {0x3f80, 0x3b81, 0x3f81, 0x3b81, 0x3f80},  // just above a tie
    {0x0000, 0x8000, 0x0000, 0x8000, 0x0000},  // zeros of two signs
    {0x0001, 0x0001, 0x0002, 0x0001, 0x0001},  // subnormals
    {0x007f, 0x0001, 0x0080, 0x0001, 0x007f},
    {0x0080, 0x8001, 0x007f, 0x8001, 0x0080},
    {0x7f7f, 0x7f7f, 0x7f80, 0x7f7f, 0x7f7f},  // overflow
    {0x7f7f, 0x7b00, 0x7f80, 0x7b00, 0x7f7f},  // overflow by rounding
    {0x7f7f, 0x7aff, 0x7f7f, 0x7aff, 0x7f7f},  // just below it
    {0x7f80, 0xff80, 0x7fc0, 0xff80, 0x7f80},  // infinities
    {0x7fc1, 0x3f80, 0x7fc0, 0x7fc0, 0x7fc0},  // NaN
    {0xffff, 0x7f81, 0x7fc0, 0x7fc0, 0x7fc0},
    {0xff81, 0x0000, 0x7fc0, 0x7fc0, 0x7fc0},
}};

constexpr std::array<GoldenRow<uint64_t>, 5> kInt64Rows = {{
    {1, 2, 3, 1, 2},
    {0x7fffffffffffffff, 1, 0x8000000000000000, 1, 0x7fffffffffffffff},  // wraps
    {0x8000000000000000, 0x8000000000000000, 0, 0x8000000000000000, 0x8000000000000000},
    {0xffffffffffffffff, 0, 0xffffffffffffffff, 0xffffffffffffffff, 0},  // -1, 0
    {0xffffffff00000000, 0x00000001ffffffff, 0x00000000ffffffff, 0xffffffff00000000,
     0x00000001ffffffff},
}};

// All rows in one call, three times over, so that they pass through vectors and tails alike.
template <class Bits>
std::vector<Bits> column(auto rows, Bits GoldenRow<Bits>::*member) {
  std::vector<Bits> values;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (const auto& row : rows) values.push_back(row.*member);
  return values;
}

#define EXPECT_GOLDEN_ROWS(dtype, rows, Bits)                                              \
  do {                                                                                     \
    const auto left = column<Bits>(rows, &GoldenRow<Bits>::left);                          \
    const auto right = column<Bits>(rows, &GoldenRow<Bits>::right);                        \
    const auto sum = column<Bits>(rows, &GoldenRow<Bits>::sum);                            \
    const auto min = column<Bits>(rows, &GoldenRow<Bits>::min);                            \
    const auto max = column<Bits>(rows, &GoldenRow<Bits>::max);                            \
    for (const auto& [first, second] : {std::pair(left, right), std::pair(right, left)}) { \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Sum, first, second), sum);                  \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Avg, first, second), sum);                  \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Min, first, second), min);                  \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Max, first, second), max);                  \
    }                                                                                      \
  } while (false)

TEST_P(DeviceArithmetic, GivesTheGoldenBitsOfFloat32InBothOrders) {
  EXPECT_GOLDEN_ROWS(DataType::Float32, kFloat32Rows, uint32_t);
}
TEST_P(DeviceArithmetic, GivesTheGoldenBitsOfBFloat16InBothOrders) {
  EXPECT_GOLDEN_ROWS(DataType::BFloat16, kBFloat16Rows, uint16_t);
}
TEST_P(DeviceArithmetic, GivesTheGoldenBitsOfInt64InBothOrders) {
  EXPECT_GOLDEN_ROWS(DataType::Int64, kInt64Rows, uint64_t);
}

TEST_P(DeviceArithmetic, DividesFloat32Once) {
  EXPECT_EQ(divided<uint32_t>(DataType::Float32,
                              {0x3f800000, 0x80000000, 0x7f800000, 0xffc54321, 0x00000003}, 3),
            (Words{0x3eaaaaab, 0x80000000, 0x7f800000, 0x7fc00000, 0x00000001}));
  EXPECT_EQ(divided<uint32_t>(DataType::Float32, {0x00000001, 0x00000003, 0x00800000}, 2),
            (Words{0x00000000, 0x00000002, 0x00400000}));
}

TEST_P(DeviceArithmetic, DividesBFloat16InFloat32AndRoundsToNearestEven) {
  EXPECT_EQ(divided<uint16_t>(DataType::BFloat16, {0x3f80, 0x8000, 0xff80, 0x7f81}, 3),
            (Halves{0x3eab, 0x8000, 0xff80, 0x7fc0}));
  EXPECT_EQ(divided<uint16_t>(DataType::BFloat16, {0x0001, 0x0003, 0x0080}, 2),
            (Halves{0x0000, 0x0002, 0x0040}));
}

TEST_P(DeviceArithmetic, DividesInt64TowardZero) {
  const auto negative = [](uint64_t value) { return 0 - value; };
  EXPECT_EQ(divided<uint64_t>(DataType::Int64, {7, negative(7), 0, 0x8000000000000000}, 2),
            (Integers{3, negative(3), 0, 0xc000000000000000}));
  EXPECT_EQ(divided<uint64_t>(DataType::Int64, {7, 0x8000000000000000}, -1),
            (Integers{negative(7), 0x8000000000000000}));
}

TEST_P(DeviceArithmetic, FoldsBFloat16WithOneRounding) {
  // 1 + 2^-8 + 2^-8 rounds to 1 twice in a chain of reduces, and once, to 1 + 2^-7, in a fold.
  const Halves one = {0x3f80};
  const Halves half_step = {0x3b80};
  const Halves chained =
      reduced(DataType::BFloat16, ReduceOp::Sum,
              reduced(DataType::BFloat16, ReduceOp::Sum, one, half_step), half_step);
  EXPECT_EQ(chained, Halves{0x3f80});
  EXPECT_EQ(folded<uint16_t>(DataType::BFloat16, ReduceOp::Sum, {one, half_step, half_step}),
            Halves{0x3f81});
}

TEST_P(DeviceArithmetic, AccumulatesBFloat16InFloat32) {
  // 2^24 + 1 + 1 - 2^24 is 2 in real numbers; float32 loses both ones, ties going to even.
  EXPECT_EQ(
      folded<uint16_t>(DataType::BFloat16, ReduceOp::Sum, {{0x4b80}, {0x3f80}, {0x3f80}, {0xcb80}}),
      Halves{0x0000});
}

TEST_P(DeviceArithmetic, FoldsFromTheLeft) {
  const Words one = {0x3f800000};
  const Words two_to_the_24 = {0x4b800000};
  EXPECT_EQ(folded<uint32_t>(DataType::Float32, ReduceOp::Sum, {two_to_the_24, one, one}),
            Words{0x4b800000});
  EXPECT_EQ(folded<uint32_t>(DataType::Float32, ReduceOp::Sum, {one, one, two_to_the_24}),
            Words{0x4b800001});
}

TEST_P(DeviceArithmetic, CopiesTheBitsOfAFoldWithOneSource) {
  const Words odd_bits = {0x7f812345, 0xffc00001, 0x00000001, 0x80000000};
  EXPECT_EQ(folded<uint32_t>(DataType::Float32, ReduceOp::Sum, {odd_bits}), odd_bits);
}

// Bits with every class of value: half of them near a special value, half uniform.
uint32_t random_word(Prng& prng) {
  static constexpr std::array<uint32_t, 8> kSpecial = {0x00000000, 0x00800000, 0x7f800000,
                                                       0x7fc00000, 0x3f800000, 0x4b800000,
                                                       0x00000001, 0x7f7fffff};
  const auto uniform = static_cast<uint32_t>(prng.next());
  if (prng.below(2) == 0) return uniform;
  const uint32_t near = kSpecial[prng.below(kSpecial.size())] + uniform % 5 - 2;
  return near ^ (uniform & 0x80000000);
}

// Two values within a few powers of two of each other cancel and round in interesting ways.
uint32_t random_neighbour(Prng& prng, uint32_t word) {
  const auto uniform = static_cast<uint32_t>(prng.next());
  return word ^ (uniform & 0x83ffffff);
}

std::vector<Words> random_sources(uint64_t seed, size_t source_count, size_t count) {
  Prng prng(seed);
  std::vector<Words> sources(source_count, Words(count));
  for (size_t i = 0; i < count; ++i)
    for (size_t source_index = 0; source_index < source_count; ++source_index) {
      const bool is_close = source_index > 0 && prng.below(2) == 0;
      sources[source_index][i] =
          is_close ? random_neighbour(prng, sources[source_index - 1][i]) : random_word(prng);
    }
  return sources;
}

uint32_t oracle_combine(ReduceOp op, uint32_t left, uint32_t right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return oracle::add(left, right);
    case ReduceOp::Min:
      return oracle::min(left, right);
    case ReduceOp::Max:
      return oracle::max(left, right);
  }
  return 0;
}

constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min, ReduceOp::Max};

TEST_P(DeviceArithmetic, FoldsRandomFloat32LikeIntegerArithmetic) {
  for (const ReduceOp op : kOps)
    for (const size_t source_count : {2u, 3u, 5u, 9u}) {
      const auto sources = random_sources(source_count, source_count, 5003);
      Words expected = sources[0];
      for (size_t source_index = 1; source_index < source_count; ++source_index)
        for (size_t i = 0; i < expected.size(); ++i)
          expected[i] = oracle_combine(op, expected[i], sources[source_index][i]);
      ASSERT_EQ(folded<uint32_t>(DataType::Float32, op, sources), expected);
      if (source_count == 2) {
        ASSERT_EQ(reduced(DataType::Float32, op, sources[1], sources[0]), expected);
      }
    }
}

TEST_P(DeviceArithmetic, FoldsRandomBFloat16LikeIntegerArithmetic) {
  for (const ReduceOp op : kOps)
    for (const size_t source_count : {2u, 3u, 5u, 9u}) {
      const auto words = random_sources(100 + source_count, source_count, 5003);
      std::vector<Halves> sources;
      for (const Words& source : words) {
        sources.emplace_back();
        for (const uint32_t word : source)
          sources.back().push_back(static_cast<uint16_t>(word >> 16));
      }
      Halves expected;
      for (size_t i = 0; i < words[0].size(); ++i) {
        uint32_t accumulator = oracle::widen(sources[0][i]);
        for (size_t source_index = 1; source_index < source_count; ++source_index)
          accumulator = oracle_combine(op, accumulator, oracle::widen(sources[source_index][i]));
        expected.push_back(oracle::narrow(accumulator));
      }
      ASSERT_EQ(folded<uint16_t>(DataType::BFloat16, op, sources), expected);
      if (source_count == 2) {
        ASSERT_EQ(reduced(DataType::BFloat16, op, sources[1], sources[0]), expected);
      }
    }
}

TEST_P(DeviceArithmetic, FoldsRandomInt64LikeUnsignedArithmetic) {
  Prng prng(7);
  std::vector<Integers> sources(4, Integers(3001));
  for (Integers& source : sources)
    for (uint64_t& value : source) value = prng.below(4) == 0 ? prng.below(3) - 1 : prng.next();
  Integers sum = sources[0];
  Integers min = sources[0];
  Integers max = sources[0];
  const auto as_signed = [](uint64_t value) { return static_cast<int64_t>(value); };
  for (size_t source_index = 1; source_index < sources.size(); ++source_index)
    for (size_t i = 0; i < sum.size(); ++i) {
      const uint64_t value = sources[source_index][i];
      sum[i] += value;
      if (as_signed(value) < as_signed(min[i])) min[i] = value;
      if (as_signed(value) > as_signed(max[i])) max[i] = value;
    }
  EXPECT_EQ(folded(DataType::Int64, ReduceOp::Sum, sources), sum);
  EXPECT_EQ(folded(DataType::Int64, ReduceOp::Avg, sources), sum);
  EXPECT_EQ(folded(DataType::Int64, ReduceOp::Min, sources), min);
  EXPECT_EQ(folded(DataType::Int64, ReduceOp::Max, sources), max);
}

TEST_P(DeviceArithmetic, DividesRandomDataLikeIntegerArithmetic) {
  for (const int64_t divisor : {int64_t{1}, int64_t{3}, int64_t{200}, int64_t{-7}, int64_t{1} << 40,
                                int64_t{0x123456789abcdef}}) {
    const Words words = random_sources(static_cast<uint64_t>(divisor), 1, 5003)[0];
    Words expected;
    Halves halves;
    Halves expected_halves;
    for (const uint32_t word : words) {
      expected.push_back(oracle::divide(word, oracle::from_integer(divisor)));
      halves.push_back(static_cast<uint16_t>(word >> 16));
      expected_halves.push_back(oracle::narrow(
          oracle::divide(oracle::widen(halves.back()), oracle::from_integer(divisor))));
    }
    ASSERT_EQ(divided(DataType::Float32, words, divisor), expected);
    ASSERT_EQ(divided(DataType::BFloat16, halves, divisor), expected_halves);
  }
}

TEST_P(DeviceArithmetic, KeepsEveryBFloat16ValueThroughMinWithItself) {
  Halves every;
  Halves expected;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    every.push_back(static_cast<uint16_t>(bits));
    expected.push_back((bits & 0x7fff) > 0x7f80 ? uint16_t{0x7fc0} : static_cast<uint16_t>(bits));
  }
  EXPECT_EQ(reduced(DataType::BFloat16, ReduceOp::Min, every, every), expected);
}

}  // namespace
}  // namespace mccl::conformance
