// Law L6, the bits of floating-point types: random data against arithmetic in integers.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/dtype.h"
#include "base/prng.h"
#include "device_suite.h"
#include "float_oracle.h"

namespace mccl::conformance {
namespace {

using oracle::Format;

class DeviceRandom : public DeviceSuite {};
INSTANTIATE_TEST_SUITE_P(Every, DeviceRandom, testing::ValuesIn(device_cases()), device_case_name);

constexpr size_t kCount = 5003;
constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Product, ReduceOp::Min,
                             ReduceOp::Max};

// Bits with every class of value: half of them near a special value, half uniform.
uint64_t random_bits(const Format& format, Prng& prng) {
  const uint64_t step = uint64_t{1} << format.fraction_bits();
  const uint64_t large = format.one() + step * static_cast<uint64_t>(format.precision);
  const std::array<uint64_t, 8> special = {
      0, 1, step, format.one(), large, format.infinity() - 1, format.infinity(), format.nan()};
  const uint64_t uniform = prng.next();
  const uint64_t all = 2 * format.sign_bit() - 1;
  if (prng.below(2) == 0) return uniform & all;
  const uint64_t near = special[prng.below(special.size())] + uniform % 5 - 2;
  return (near ^ (uniform & format.sign_bit())) & all;
}

// Two values within a few powers of two of each other cancel and round in interesting ways.
uint64_t random_neighbour(const Format& format, Prng& prng, uint64_t bits) {
  const uint64_t low = (uint64_t{4} << format.fraction_bits()) - 1;
  return bits ^ (prng.next() & (format.sign_bit() | low));
}

template <class Bits>
std::vector<std::vector<Bits>> random_sources(const Format& format, uint64_t seed,
                                              size_t source_count) {
  Prng prng(seed);
  std::vector<std::vector<Bits>> sources(source_count, std::vector<Bits>(kCount));
  for (size_t i = 0; i < kCount; ++i)
    for (size_t source_index = 0; source_index < source_count; ++source_index) {
      const bool is_close = source_index > 0 && prng.below(2) == 0;
      sources[source_index][i] =
          static_cast<Bits>(is_close ? random_neighbour(format, prng, sources[source_index - 1][i])
                                     : random_bits(format, prng));
    }
  return sources;
}

uint64_t combined(const Format& format, ReduceOp op, uint64_t left, uint64_t right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return oracle::add(format, left, right);
    case ReduceOp::Product:
      return oracle::multiply(format, left, right);
    case ReduceOp::Min:
      return oracle::min(format, left, right);
    case ReduceOp::Max:
      return oracle::max(format, left, right);
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor:
      break;
  }
  ADD_FAILURE() << "floats have no " << reduce_op_name(op);
  return 0;
}

// The format that a fold of `wire` accumulates in.
const Format& accumulation(const Format& wire) {
  return wire.precision < oracle::kFloat32.precision ? oracle::kFloat32 : wire;
}

template <class Bits>
std::vector<Bits> expected_fold(const Format& wire, ReduceOp op,
                                const std::vector<std::vector<Bits>>& sources) {
  const Format& wide = accumulation(wire);
  std::vector<Bits> expected;
  for (size_t i = 0; i < sources[0].size(); ++i) {
    uint64_t total = oracle::convert(wire, wide, sources[0][i]);
    for (size_t source_index = 1; source_index < sources.size(); ++source_index)
      total = combined(wide, op, total, oracle::convert(wire, wide, sources[source_index][i]));
    expected.push_back(static_cast<Bits>(oracle::convert(wide, wire, total)));
  }
  return expected;
}

template <class Bits>
std::vector<Bits> expected_quotients(const Format& wire, const std::vector<Bits>& values,
                                     int64_t divisor) {
  const Format& wide = accumulation(wire);
  std::vector<Bits> expected;
  for (const Bits value : values)
    expected.push_back(
        static_cast<Bits>(oracle::convert(wide, wire,
                                          oracle::divide(wide, oracle::convert(wire, wide, value),
                                                         oracle::from_integer(wide, divisor)))));
  return expected;
}

#define EXPECT_FOLDS(dtype, format, Bits)                                                      \
  for (const ReduceOp op : kOps)                                                               \
    for (const size_t source_count : {2u, 3u, 5u, 9u}) {                                       \
      const auto sources = random_sources<Bits>(format, source_count, source_count);           \
      const std::vector<Bits> expected = expected_fold(format, op, sources);                   \
      ASSERT_EQ(folded<Bits>(dtype, op, sources), expected) << reduce_op_name(op);             \
      if (source_count == 2) {                                                                 \
        ASSERT_EQ(reduced(dtype, op, sources[1], sources[0]), expected) << reduce_op_name(op); \
      }                                                                                        \
    }

TEST_P(DeviceRandom, FoldsFloat64LikeIntegerArithmetic){
    EXPECT_FOLDS(DataType::Float64, oracle::kFloat64,
                 uint64_t)} TEST_P(DeviceRandom, FoldsFloat32LikeIntegerArithmetic){
    EXPECT_FOLDS(DataType::Float32, oracle::kFloat32,
                 uint32_t)} TEST_P(DeviceRandom, FoldsFloat16LikeIntegerArithmetic){
    EXPECT_FOLDS(DataType::Float16, oracle::kFloat16,
                 uint16_t)} TEST_P(DeviceRandom, FoldsBFloat16LikeIntegerArithmetic){
    EXPECT_FOLDS(DataType::BFloat16, oracle::kBFloat16, uint16_t)}
#define EXPECT_QUOTIENTS(dtype, format, Bits)                                                     \
  for (const int64_t divisor : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{200},                 \
                                int64_t{1} << 40, int64_t{0x123456789abcdef}}) {                  \
    const auto values = random_sources<Bits>(format, static_cast<uint64_t>(divisor), 1)[0];       \
    ASSERT_EQ(divided<Bits>(dtype, values, divisor), expected_quotients(format, values, divisor)) \
        << divisor;                                                                               \
  }

TEST_P(DeviceRandom, DividesLikeIntegerArithmetic){
    EXPECT_QUOTIENTS(DataType::Float64, oracle::kFloat64, uint64_t)
        EXPECT_QUOTIENTS(DataType::Float32, oracle::kFloat32, uint32_t)
            EXPECT_QUOTIENTS(DataType::Float16, oracle::kFloat16, uint16_t)
                EXPECT_QUOTIENTS(DataType::BFloat16, oracle::kBFloat16, uint16_t)}

// Every float16, scaled so that its product meets every rounding and the whole range of subnormals.
TEST_P(DeviceRandom, RoundsProductsOfEveryFloat16) {
  for (const uint16_t factor :
       std::vector<uint16_t>{0x3c00, 0x3c01, 0x3bff, 0x3800, 0x1401, 0x0400, 0x0001, 0x5bff}) {
    std::vector<std::vector<uint16_t>> sources(2);
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      sources[0].push_back(static_cast<uint16_t>(bits));
      sources[1].push_back(factor);
    }
    ASSERT_EQ(reduced(DataType::Float16, ReduceOp::Product, sources[0], sources[1]),
              expected_fold(oracle::kFloat16, ReduceOp::Product, sources))
        << factor;
  }
}

}  // namespace
}  // namespace mccl::conformance
