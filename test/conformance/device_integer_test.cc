// Law L6, the bits of integers and bool: golden vectors, and random data against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/prng.h"
#include "device_suite.h"

namespace mccl::conformance {
namespace {

class DeviceIntegers : public DeviceSuite {};
INSTANTIATE_TEST_SUITE_P(Every, DeviceIntegers, testing::ValuesIn(device_cases()),
                         device_case_name);

template <class Bits>
struct IntegerRow {
  Bits left;
  Bits right;
  Bits sum;
  Bits product;
  Bits bit_and;
  Bits bit_or;
  Bits bit_xor;
  Bits signed_min;
  Bits signed_max;
  Bits unsigned_min;
  Bits unsigned_max;
};

constexpr std::array<IntegerRow<uint64_t>, 8> kRows64 = {{
    {0x1, 0x2, 0x3, 0x2, 0x0, 0x3, 0x3, 0x1, 0x2, 0x1, 0x2},
    {0x7fffffffffffffff, 0x1, 0x8000000000000000, 0x7fffffffffffffff, 0x1, 0x7fffffffffffffff,
     0x7ffffffffffffffe, 0x1, 0x7fffffffffffffff, 0x1, 0x7fffffffffffffff},
    {0x8000000000000000, 0x8000000000000000, 0x0, 0x0, 0x8000000000000000, 0x8000000000000000, 0x0,
     0x8000000000000000, 0x8000000000000000, 0x8000000000000000, 0x8000000000000000},
    {0xffffffffffffffff, 0x2, 0x1, 0xfffffffffffffffe, 0x2, 0xffffffffffffffff, 0xfffffffffffffffd,
     0xffffffffffffffff, 0x2, 0x2, 0xffffffffffffffff},
    {0xffffffffffffffff, 0xffffffffffffffff, 0xfffffffffffffffe, 0x1, 0xffffffffffffffff,
     0xffffffffffffffff, 0x0, 0xffffffffffffffff, 0xffffffffffffffff, 0xffffffffffffffff,
     0xffffffffffffffff},
    {0x5a5a5a5a5a5a5a5a, 0xf0f0f0f0f0f0f0f, 0x6969696969696969, 0x5509be7327dc9146,
     0xa0a0a0a0a0a0a0a, 0x5f5f5f5f5f5f5f5f, 0x5555555555555555, 0xf0f0f0f0f0f0f0f,
     0x5a5a5a5a5a5a5a5a, 0xf0f0f0f0f0f0f0f, 0x5a5a5a5a5a5a5a5a},
    {0x8000000000000001, 0x7fffffffffffffff, 0x0, 0xffffffffffffffff, 0x1, 0xffffffffffffffff,
     0xfffffffffffffffe, 0x8000000000000001, 0x7fffffffffffffff, 0x7fffffffffffffff,
     0x8000000000000001},
    {0xffffffff, 0x100000001, 0x200000000, 0xffffffffffffffff, 0x1, 0x1ffffffff, 0x1fffffffe,
     0xffffffff, 0x100000001, 0xffffffff, 0x100000001},
}};

constexpr std::array<IntegerRow<uint32_t>, 8> kRows32 = {{
    {0x1, 0x2, 0x3, 0x2, 0x0, 0x3, 0x3, 0x1, 0x2, 0x1, 0x2},
    {0x7fffffff, 0x1, 0x80000000, 0x7fffffff, 0x1, 0x7fffffff, 0x7ffffffe, 0x1, 0x7fffffff, 0x1,
     0x7fffffff},
    {0x80000000, 0x80000000, 0x0, 0x0, 0x80000000, 0x80000000, 0x0, 0x80000000, 0x80000000,
     0x80000000, 0x80000000},
    {0xffffffff, 0x2, 0x1, 0xfffffffe, 0x2, 0xffffffff, 0xfffffffd, 0xffffffff, 0x2, 0x2,
     0xffffffff},
    {0xffffffff, 0xffffffff, 0xfffffffe, 0x1, 0xffffffff, 0xffffffff, 0x0, 0xffffffff, 0xffffffff,
     0xffffffff, 0xffffffff},
    {0x5a5a5a5a, 0xf0f0f0f, 0x69696969, 0x27dc9146, 0xa0a0a0a, 0x5f5f5f5f, 0x55555555, 0xf0f0f0f,
     0x5a5a5a5a, 0xf0f0f0f, 0x5a5a5a5a},
    {0x80000001, 0x7fffffff, 0x0, 0xffffffff, 0x1, 0xffffffff, 0xfffffffe, 0x80000001, 0x7fffffff,
     0x7fffffff, 0x80000001},
    {0xffff, 0x10001, 0x20000, 0xffffffff, 0x1, 0x1ffff, 0x1fffe, 0xffff, 0x10001, 0xffff, 0x10001},
}};

constexpr std::array<IntegerRow<uint16_t>, 8> kRows16 = {{
    {0x1, 0x2, 0x3, 0x2, 0x0, 0x3, 0x3, 0x1, 0x2, 0x1, 0x2},
    {0x7fff, 0x1, 0x8000, 0x7fff, 0x1, 0x7fff, 0x7ffe, 0x1, 0x7fff, 0x1, 0x7fff},
    {0x8000, 0x8000, 0x0, 0x0, 0x8000, 0x8000, 0x0, 0x8000, 0x8000, 0x8000, 0x8000},
    {0xffff, 0x2, 0x1, 0xfffe, 0x2, 0xffff, 0xfffd, 0xffff, 0x2, 0x2, 0xffff},
    {0xffff, 0xffff, 0xfffe, 0x1, 0xffff, 0xffff, 0x0, 0xffff, 0xffff, 0xffff, 0xffff},
    {0x5a5a, 0xf0f, 0x6969, 0x9146, 0xa0a, 0x5f5f, 0x5555, 0xf0f, 0x5a5a, 0xf0f, 0x5a5a},
    {0x8001, 0x7fff, 0x0, 0xffff, 0x1, 0xffff, 0xfffe, 0x8001, 0x7fff, 0x7fff, 0x8001},
    {0xff, 0x101, 0x200, 0xffff, 0x1, 0x1ff, 0x1fe, 0xff, 0x101, 0xff, 0x101},
}};

constexpr std::array<IntegerRow<uint8_t>, 8> kRows8 = {{
    {0x1, 0x2, 0x3, 0x2, 0x0, 0x3, 0x3, 0x1, 0x2, 0x1, 0x2},
    {0x7f, 0x1, 0x80, 0x7f, 0x1, 0x7f, 0x7e, 0x1, 0x7f, 0x1, 0x7f},
    {0x80, 0x80, 0x0, 0x0, 0x80, 0x80, 0x0, 0x80, 0x80, 0x80, 0x80},
    {0xff, 0x2, 0x1, 0xfe, 0x2, 0xff, 0xfd, 0xff, 0x2, 0x2, 0xff},
    {0xff, 0xff, 0xfe, 0x1, 0xff, 0xff, 0x0, 0xff, 0xff, 0xff, 0xff},
    {0x5a, 0xf, 0x69, 0x46, 0xa, 0x5f, 0x55, 0xf, 0x5a, 0xf, 0x5a},
    {0x81, 0x7f, 0x0, 0xff, 0x1, 0xff, 0xfe, 0x81, 0x7f, 0x7f, 0x81},
    {0xf, 0x11, 0x20, 0xff, 0x1, 0x1f, 0x1e, 0xf, 0x11, 0xf, 0x11},
}};

// All rows in one call, ten times over, so that they pass through vectors and tails alike.
template <class Bits>
std::vector<Bits> column(const auto& rows, Bits IntegerRow<Bits>::*member) {
  std::vector<Bits> values;
  for (int repetition = 0; repetition < 10; ++repetition)
    for (const auto& row : rows) values.push_back(row.*member);
  values.pop_back();
  return values;
}

template <class Bits>
std::vector<std::pair<ReduceOp, Bits IntegerRow<Bits>::*>> results(bool is_signed) {
  using Row = IntegerRow<Bits>;
  return {{ReduceOp::Sum, &Row::sum},
          {ReduceOp::Avg, &Row::sum},
          {ReduceOp::Product, &Row::product},
          {ReduceOp::Min, is_signed ? &Row::signed_min : &Row::unsigned_min},
          {ReduceOp::Max, is_signed ? &Row::signed_max : &Row::unsigned_max},
          {ReduceOp::BitAnd, &Row::bit_and},
          {ReduceOp::BitOr, &Row::bit_or},
          {ReduceOp::BitXor, &Row::bit_xor}};
}

#define EXPECT_INTEGER_ROWS(dtype, rows, Bits, is_signed)                          \
  do {                                                                             \
    const auto left = column<Bits>(rows, &IntegerRow<Bits>::left);                 \
    const auto right = column<Bits>(rows, &IntegerRow<Bits>::right);               \
    for (const auto& [op, member] : results<Bits>(is_signed)) {                    \
      EXPECT_EQ(reduced<Bits>(dtype, op, left, right), column<Bits>(rows, member)) \
          << reduce_op_name(op);                                                   \
      EXPECT_EQ(reduced<Bits>(dtype, op, right, left), column<Bits>(rows, member)) \
          << reduce_op_name(op);                                                   \
    }                                                                              \
  } while (false)

TEST_P(DeviceIntegers, GiveTheGoldenBitsOfSignedTypes) {
  EXPECT_INTEGER_ROWS(DataType::Int64, kRows64, uint64_t, true);
  EXPECT_INTEGER_ROWS(DataType::Int32, kRows32, uint32_t, true);
  EXPECT_INTEGER_ROWS(DataType::Int16, kRows16, uint16_t, true);
  EXPECT_INTEGER_ROWS(DataType::Int8, kRows8, uint8_t, true);
}

TEST_P(DeviceIntegers, GiveTheGoldenBitsOfUnsignedTypes) {
  EXPECT_INTEGER_ROWS(DataType::UInt64, kRows64, uint64_t, false);
  EXPECT_INTEGER_ROWS(DataType::UInt32, kRows32, uint32_t, false);
  EXPECT_INTEGER_ROWS(DataType::UInt16, kRows16, uint16_t, false);
  EXPECT_INTEGER_ROWS(DataType::UInt8, kRows8, uint8_t, false);
}

// The definition, for one element of the C++ type; unsigned arithmetic wraps.
template <class T>
T combined(ReduceOp op, T left, T right) {
  const auto wide_left = static_cast<uint64_t>(left);
  const auto wide_right = static_cast<uint64_t>(right);
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return static_cast<T>(wide_left + wide_right);
    case ReduceOp::Product:
      return static_cast<T>(wide_left * wide_right);
    case ReduceOp::Min:
      return std::min(left, right);
    case ReduceOp::Max:
      return std::max(left, right);
    case ReduceOp::BitAnd:
      return static_cast<T>(wide_left & wide_right);
    case ReduceOp::BitOr:
      return static_cast<T>(wide_left | wide_right);
    case ReduceOp::BitXor:
      return static_cast<T>(wide_left ^ wide_right);
  }
  return left;
}

template <class T>
std::vector<T> random_integers(Prng& prng, size_t count) {
  std::vector<T> values(count);
  for (T& value : values)
    value = static_cast<T>(prng.below(4) == 0 ? prng.below(3) - 1 : prng.next());
  return values;
}

template <class T, class Folded>
void expect_random_folds(Folded folded) {
  Prng prng(sizeof(T));
  for (const ReduceOp op : all_reduce_ops()) {
    std::vector<std::vector<T>> sources;
    for (int source_index = 0; source_index < 4; ++source_index)
      sources.push_back(random_integers<T>(prng, 3001));
    std::vector<T> expected = sources[0];
    for (size_t source_index = 1; source_index < sources.size(); ++source_index)
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] = combined(op, expected[i], sources[source_index][i]);
    EXPECT_EQ(folded(op, sources), expected) << reduce_op_name(op);
  }
}

#define EXPECT_RANDOM_FOLDS(dtype, T) \
  expect_random_folds<T>(             \
      [&](ReduceOp op, const auto& sources) { return folded<T>(dtype, op, sources); })

TEST_P(DeviceIntegers, FoldRandomDataLikePlainLoops) {
  EXPECT_RANDOM_FOLDS(DataType::Int64, int64_t);
  EXPECT_RANDOM_FOLDS(DataType::Int32, int32_t);
  EXPECT_RANDOM_FOLDS(DataType::Int16, int16_t);
  EXPECT_RANDOM_FOLDS(DataType::Int8, int8_t);
  EXPECT_RANDOM_FOLDS(DataType::UInt64, uint64_t);
  EXPECT_RANDOM_FOLDS(DataType::UInt32, uint32_t);
  EXPECT_RANDOM_FOLDS(DataType::UInt16, uint16_t);
  EXPECT_RANDOM_FOLDS(DataType::UInt8, uint8_t);
}

TEST_P(DeviceIntegers, MultiplyEveryPairOfBytes) {
  std::vector<uint8_t> left;
  std::vector<uint8_t> right;
  std::vector<uint8_t> expected;
  for (uint32_t pair = 0; pair <= 0xffff; ++pair) {
    left.push_back(static_cast<uint8_t>(pair >> 8));
    right.push_back(static_cast<uint8_t>(pair));
    expected.push_back(static_cast<uint8_t>((pair >> 8) * (pair & 0xff)));
  }
  EXPECT_EQ(reduced(DataType::UInt8, ReduceOp::Product, left, right), expected);
  EXPECT_EQ(reduced(DataType::Int8, ReduceOp::Product, left, right), expected);
}

TEST_P(DeviceIntegers, DivideTowardZero) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(divided<int64_t>(DataType::Int64, {7, -7, 0, kLeast, kLeast + 1}, 2),
            (std::vector<int64_t>{3, -3, 0, kLeast / 2, kLeast / 2 + 1}));
  EXPECT_EQ(divided<int32_t>(DataType::Int32, {7, -7, 2147483647, -2147483647 - 1}, 3),
            (std::vector<int32_t>{2, -2, 715827882, -715827882}));
  EXPECT_EQ(divided<int16_t>(DataType::Int16, {8, -8, 32767, -32768}, 3),
            (std::vector<int16_t>{2, -2, 10922, -10922}));
  EXPECT_EQ(divided<int8_t>(DataType::Int8, {5, -5, 127, -128}, 2),
            (std::vector<int8_t>{2, -2, 63, -64}));
}

TEST_P(DeviceIntegers, DivideUnsignedTypesAsLargeNumbers) {
  EXPECT_EQ(divided<uint64_t>(DataType::UInt64, {0xffffffffffffffff, 7}, 2),
            (std::vector<uint64_t>{0x7fffffffffffffff, 3}));
  EXPECT_EQ(divided<uint32_t>(DataType::UInt32, {0xffffffff, 7}, 2),
            (std::vector<uint32_t>{0x7fffffff, 3}));
  EXPECT_EQ(divided<uint16_t>(DataType::UInt16, {0xffff, 7}, 2),
            (std::vector<uint16_t>{0x7fff, 3}));
  EXPECT_EQ(divided<uint8_t>(DataType::UInt8, {0xff, 7}, 2), (std::vector<uint8_t>{0x7f, 3}));
}

TEST_P(DeviceIntegers, DivideByNumbersLargerThanTheType) {
  EXPECT_EQ(divided<int8_t>(DataType::Int8, {127, -128}, 128), (std::vector<int8_t>{0, -1}));
  EXPECT_EQ(divided<uint8_t>(DataType::UInt8, {255}, 256), (std::vector<uint8_t>{0}));
  EXPECT_EQ(divided<int32_t>(DataType::Int32, {2147483647, -2147483647 - 1}, int64_t{1} << 40),
            (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(divided<uint64_t>(DataType::UInt64, {0xffffffffffffffff}, 0x7fffffffffffffff),
            (std::vector<uint64_t>{2}));
}

template <class T, class Divided>
void expect_random_quotients(Divided divided) {
  Prng prng(11);
  for (const int64_t divisor : {1, 2, 3, 7, 200, 65'537}) {
    std::vector<T> values = random_integers<T>(prng, 3001);
    // Multiples and their neighbours: where a quotient changes.
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      values[i] =
          static_cast<T>(values[i] / static_cast<T>(7) * static_cast<T>(7) - static_cast<T>(i % 3));
    std::vector<T> expected;
    for (const T value : values) {
      if constexpr (std::is_signed_v<T>)
        expected.push_back(static_cast<T>(int64_t{value} / divisor));
      else
        expected.push_back(static_cast<T>(uint64_t{value} / static_cast<uint64_t>(divisor)));
    }
    EXPECT_EQ(divided(values, divisor), expected) << divisor;
  }
}

#define EXPECT_RANDOM_QUOTIENTS(dtype, T)                                         \
  expect_random_quotients<T>([&](const std::vector<T>& values, int64_t divisor) { \
    return divided<T>(dtype, values, divisor);                                    \
  })

TEST_P(DeviceIntegers, DivideRandomDataLikePlainLoops) {
  EXPECT_RANDOM_QUOTIENTS(DataType::Int64, int64_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::Int32, int32_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::Int16, int16_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::Int8, int8_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::UInt64, uint64_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::UInt32, uint32_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::UInt16, uint16_t);
  EXPECT_RANDOM_QUOTIENTS(DataType::UInt8, uint8_t);
}

TEST_P(DeviceIntegers, TakeEveryByteButZeroForTrueAndGiveZeroOrOne) {
  std::vector<uint8_t> left;
  std::vector<uint8_t> right;
  std::vector<uint8_t> either;
  std::vector<uint8_t> both;
  std::vector<uint8_t> one;
  for (const uint8_t first : std::vector<uint8_t>{0, 1, 2, 0x80, 0xff})
    for (const uint8_t second : std::vector<uint8_t>{0, 1, 2, 0x7f, 0xff})
      for (int repetition = 0; repetition < 7; ++repetition) {
        left.push_back(first);
        right.push_back(second);
        either.push_back(first != 0 || second != 0 ? 1 : 0);
        both.push_back(first != 0 && second != 0 ? 1 : 0);
        one.push_back((first != 0) != (second != 0) ? 1 : 0);
      }
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::BitOr})
    EXPECT_EQ(reduced(DataType::Bool, op, left, right), either) << reduce_op_name(op);
  for (const ReduceOp op : {ReduceOp::Product, ReduceOp::Min, ReduceOp::BitAnd})
    EXPECT_EQ(reduced(DataType::Bool, op, left, right), both) << reduce_op_name(op);
  EXPECT_EQ(reduced(DataType::Bool, ReduceOp::BitXor, left, right), one);
}

TEST_P(DeviceIntegers, FoldBoolLikeAChain) {
  EXPECT_EQ(folded<uint8_t>(DataType::Bool, ReduceOp::BitXor,
                            {{2, 0, 0xff, 0}, {4, 0, 1, 0}, {8, 0, 0, 1}}),
            (std::vector<uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(
      folded<uint8_t>(DataType::Bool, ReduceOp::Sum, {{2, 0, 0xff, 0}, {4, 0, 1, 0}, {8, 0, 0, 9}}),
      (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_EQ(folded<uint8_t>(DataType::Bool, ReduceOp::Product,
                            {{2, 0, 0xff, 0}, {4, 0, 1, 0}, {8, 0, 0, 9}}),
            (std::vector<uint8_t>{1, 0, 0, 0}));
}

}  // namespace
}  // namespace mccl::conformance
