// Law L6, the bits of floating-point types: golden vectors, rounding, folds and divisions. Random
// data: device_random_test.cc.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "device_golden_floats.h"
#include "device_suite.h"

namespace mccl::conformance {
namespace {

class DeviceArithmetic : public DeviceSuite {};
INSTANTIATE_TEST_SUITE_P(Every, DeviceArithmetic, testing::ValuesIn(device_cases()),
                         device_case_name);

using Words = std::vector<uint32_t>;
using Halves = std::vector<uint16_t>;
using Doubles = std::vector<uint64_t>;

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
    const auto product = column<Bits>(rows, &GoldenRow<Bits>::product);                    \
    const auto min = column<Bits>(rows, &GoldenRow<Bits>::min);                            \
    const auto max = column<Bits>(rows, &GoldenRow<Bits>::max);                            \
    for (const auto& [first, second] : {std::pair(left, right), std::pair(right, left)}) { \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Sum, first, second), sum);                  \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Avg, first, second), sum);                  \
      EXPECT_EQ(reduced<Bits>(dtype, ReduceOp::Product, first, second), product);          \
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
TEST_P(DeviceArithmetic, GivesTheGoldenBitsOfFloat64InBothOrders) {
  EXPECT_GOLDEN_ROWS(DataType::Float64, kFloat64Rows, uint64_t);
}
TEST_P(DeviceArithmetic, GivesTheGoldenBitsOfFloat16InBothOrders) {
  EXPECT_GOLDEN_ROWS(DataType::Float16, kFloat16Rows, uint16_t);
}

TEST_P(DeviceArithmetic, DividesFloat64Once) {
  EXPECT_EQ(divided<uint64_t>(DataType::Float64,
                              {0x3ff0000000000000, 0x8000000000000000, 0x7ff0000000000000,
                               0xfff8543210000000, 0x0000000000000003},
                              3),
            (Doubles{0x3fd5555555555555, 0x8000000000000000, 0x7ff0000000000000, 0x7ff8000000000000,
                     0x0000000000000001}));
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

TEST_P(DeviceArithmetic, DividesFloat16InFloat32AndRoundsToNearestEven) {
  EXPECT_EQ(divided<uint16_t>(DataType::Float16, {0x3c00, 0x8000, 0xfc00, 0x7c01}, 3),
            (Halves{0x3555, 0x8000, 0xfc00, 0x7e00}));
  EXPECT_EQ(divided<uint16_t>(DataType::Float16, {0x0001, 0x0003, 0x0400, 0x0401}, 2),
            (Halves{0x0000, 0x0002, 0x0200, 0x0200}));
}

TEST_P(DeviceArithmetic, RoundsFloat16TiesToEven) {
  // Steps between 2048 and 4096 are 2; 65520 is half a step above the largest number, 65504.
  EXPECT_EQ(reduced<uint16_t>(DataType::Float16, ReduceOp::Sum, {0x6800, 0x6801, 0x7bff},
                              {0x3c00, 0x3c00, 0x4c00}),
            (Halves{0x6800, 0x6802, 0x7c00}));
}

TEST_P(DeviceArithmetic, RoundsAChainAtEveryNodeAndAFoldOnce) {
  // 256 + 1 + 1 and 2048 + 1 + 1: a step is 2, so each addition of a chain is a tie.
  const auto chained = [&](DataType dtype, Halves large, const Halves& one) {
    for (int node = 0; node < 2; ++node) large = reduced(dtype, ReduceOp::Sum, large, one);
    return large;
  };
  EXPECT_EQ(chained(DataType::BFloat16, {0x4380}, {0x3f80}), Halves{0x4380});
  EXPECT_EQ(chained(DataType::Float16, {0x6800}, {0x3c00}), Halves{0x6800});
  EXPECT_EQ(folded<uint16_t>(DataType::BFloat16, ReduceOp::Sum, {{0x4380}, {0x3f80}, {0x3f80}}),
            Halves{0x4381});
  EXPECT_EQ(folded<uint16_t>(DataType::Float16, ReduceOp::Sum, {{0x6800}, {0x3c00}, {0x3c00}}),
            Halves{0x6801});
}

TEST_P(DeviceArithmetic, OverflowsFloat16OnlyAtTheEndOfAFold) {
  // 65504 + 65504 - 65504 passes through 131008, which float32 holds.
  EXPECT_EQ(folded<uint16_t>(DataType::Float16, ReduceOp::Sum, {{0x7bff}, {0x7bff}, {0xfbff}}),
            Halves{0x7bff});
  EXPECT_EQ(folded<uint16_t>(DataType::Float16, ReduceOp::Product, {{0x7bff}, {0x4000}, {0x3800}}),
            Halves{0x7bff});
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

TEST_P(DeviceArithmetic, KeepsEveryHalfValueThroughMinWithItself) {
  Halves every;
  Halves expected_float16;
  Halves expected_bfloat16;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    every.push_back(half);
    expected_float16.push_back((bits & 0x7fff) > 0x7c00 ? uint16_t{0x7e00} : half);
    expected_bfloat16.push_back((bits & 0x7fff) > 0x7f80 ? uint16_t{0x7fc0} : half);
  }
  EXPECT_EQ(reduced(DataType::Float16, ReduceOp::Min, every, every), expected_float16);
  EXPECT_EQ(reduced(DataType::BFloat16, ReduceOp::Min, every, every), expected_bfloat16);
}

}  // namespace
}  // namespace mccl::conformance
