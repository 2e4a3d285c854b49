#include "verify/reference_arithmetic.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace mccl::judge {
namespace {

ElementBits combine(DataType dtype, ReduceOp op, std::vector<ElementBits> operands) {
  return combine_elements(dtype, op, operands);
}

ElementBits float_bits(float value) {
  return std::bit_cast<uint32_t>(value);
}

TEST(ReferenceArithmetic, OneOperandComesBackUnchanged) {
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Sum, {0x7f800001}), 0x7f800001u);
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Max, {0xffff}), 0xffffu);
}

TEST(ReferenceArithmetic, Float32AddsAndNormalisesNaN) {
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Sum, {float_bits(1.5f), float_bits(2.25f)}),
            float_bits(3.75f));
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Sum, {0xffc00001, float_bits(1.0f)}), 0x7fc00000u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Sum, {0x7f800000, 0xff800000}), 0x7fc00000u);
}

TEST(ReferenceArithmetic, MinAndMaxOrderZerosAndLetNaNWin) {
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Min, {0x00000000, 0x80000000}), 0x80000000u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Min, {0x80000000, 0x00000000}), 0x80000000u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Max, {0x00000000, 0x80000000}), 0x00000000u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Max, {0x80000000, 0x00000000}), 0x00000000u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Min, {float_bits(-1.0f), 0x7fa00000}),
            0x7fc00000u);
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Max, {0xffc1, 0x3f80}), 0x7fc0u);
  EXPECT_EQ(combine(DataType::Float32, ReduceOp::Max, {float_bits(2.0f), float_bits(-7.0f)}),
            float_bits(2.0f));
}

TEST(ReferenceArithmetic, BFloat16RoundsToNearestEven) {
  // 1 + 2^-8 lies half-way between 1 and 1 + 2^-7, and 1 + 2^-7 + 2^-8 above an odd one.
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x3f80, 0x3b80}), 0x3f80u);
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x3f81, 0x3b80}), 0x3f82u);
  // Just above the half-way point.
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x3f80, 0x3b81}), 0x3f81u);
}

TEST(ReferenceArithmetic, BFloat16KeepsSubnormalsAndOverflowsToInfinity) {
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x0001, 0x0001}), 0x0002u);
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x7f7f, 0x7f7f}), 0x7f80u);
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x7f7f, 0x7b00}), 0x7f80u);
}

TEST(ReferenceArithmetic, AFoldOfBFloat16RoundsOnce) {
  // 1 + 2^-8 + 2^-8: pairwise both additions round back to 1, at once they give 1 + 2^-7.
  EXPECT_EQ(combine(DataType::BFloat16, ReduceOp::Sum, {0x3f80, 0x3b80, 0x3b80}), 0x3f81u);
}

TEST(ReferenceArithmetic, Int64Wraps) {
  EXPECT_EQ(combine(DataType::Int64, ReduceOp::Sum, {0x7fffffffffffffff, 1}), 0x8000000000000000u);
  EXPECT_EQ(combine(DataType::Int64, ReduceOp::Min, {1, 0xffffffffffffffff}), 0xffffffffffffffffu);
  EXPECT_EQ(combine(DataType::Int64, ReduceOp::Max, {1, 0xffffffffffffffff}), 1u);
}

TEST(ReferenceArithmetic, DividesTrulyAndIntegersTowardZero) {
  EXPECT_EQ(divide_element(DataType::Float32, float_bits(1.0f), 3), float_bits(1.0f / 3.0f));
  EXPECT_EQ(divide_element(DataType::BFloat16, 0x3f80, 3), 0x3eabu);
  EXPECT_EQ(divide_element(DataType::Int64, static_cast<ElementBits>(-7), 2),
            static_cast<ElementBits>(-3));
}

}  // namespace
}  // namespace mccl::judge
