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
  EXPECT_EQ(divide_element(DataType::Int64, static_cast<uint64_t>(-7), 2),
            static_cast<uint64_t>(-3));
}

TEST(ReferenceArithmetic, Float64AddsMultipliesAndNormalisesNaN) {
  EXPECT_EQ(combine(DataType::Float64, ReduceOp::Sum, {0x3ff0000000000000, 0x3ff0000000000000}),
            0x4000000000000000u);
  EXPECT_EQ(combine(DataType::Float64, ReduceOp::Product, {0x7ff0000000000000, 0}),
            0x7ff8000000000000u);
  EXPECT_EQ(divide_element(DataType::Float64, 0x3ff0000000000000, 3), 0x3fd5555555555555u);
}

TEST(ReferenceArithmetic, Float16RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x6800, 0x3c00}), 0x6800u);  // 2048 + 1
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x6801, 0x3c00}), 0x6802u);  // 2050 + 1
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x7bff, 0x4c00}), 0x7c00u);  // 65504 + 16
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x7bff, 0x4bff}), 0x7bffu);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x6800, 0x3c00, 0x3c00}), 0x6801u);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Max, {0xfc01, 0x3c00}), 0x7e00u);
}

TEST(ReferenceArithmetic, Float16KeepsSubnormals) {
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x0001, 0x0001}), 0x0002u);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Sum, {0x0400, 0x8001}), 0x03ffu);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Product, {0x0001, 0x3800}), 0x0000u);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Product, {0x0003, 0x3800}), 0x0002u);
  EXPECT_EQ(combine(DataType::Float16, ReduceOp::Product, {0x03ff, 0x3c01}), 0x0400u);
}

TEST(ReferenceArithmetic, Float16KeepsEveryValue) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const ElementBits kept = (bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits;
    ASSERT_EQ(combine(DataType::Float16, ReduceOp::Min, {bits, bits}), kept);
  }
}

TEST(ReferenceArithmetic, NarrowIntegersWrapAndKeepTheirSign) {
  EXPECT_EQ(combine(DataType::Int8, ReduceOp::Sum, {0x7f, 0x01}), 0x80u);
  EXPECT_EQ(combine(DataType::Int8, ReduceOp::Min, {0x7f, 0x80}), 0x80u);
  EXPECT_EQ(combine(DataType::UInt8, ReduceOp::Min, {0x7f, 0x80}), 0x7fu);
  EXPECT_EQ(combine(DataType::Int16, ReduceOp::Product, {0xffff, 0x0003}), 0xfffdu);
  EXPECT_EQ(combine(DataType::UInt32, ReduceOp::Max, {0xffffffff, 1}), 0xffffffffu);
  EXPECT_EQ(combine(DataType::Int32, ReduceOp::BitXor, {0xff00ff00, 0x0ff00ff0}), 0xf0f0f0f0u);
  EXPECT_EQ(divide_element(DataType::Int8, 0xf9, 2), 0xfdu);   // -7 / 2 = -3
  EXPECT_EQ(divide_element(DataType::UInt8, 0xf9, 2), 0x7cu);  // 249 / 2 = 124
  EXPECT_EQ(divide_element(DataType::UInt64, 0xffffffffffffffff, 2), 0x7fffffffffffffffu);
}

TEST(ReferenceArithmetic, BoolIsZeroOrOneAndAnyByteButZeroIsTrue) {
  EXPECT_EQ(combine(DataType::Bool, ReduceOp::Sum, {2, 4}), 1u);
  EXPECT_EQ(combine(DataType::Bool, ReduceOp::Max, {0, 0xff}), 1u);
  EXPECT_EQ(combine(DataType::Bool, ReduceOp::BitAnd, {1, 2}), 1u);
  EXPECT_EQ(combine(DataType::Bool, ReduceOp::Product, {0, 2}), 0u);
  EXPECT_EQ(combine(DataType::Bool, ReduceOp::BitXor, {1, 2, 4}), 1u);
}

TEST(ReferenceArithmeticDeathTest, RefusesPairsWithoutAMeaning) {
  EXPECT_DEATH(combine(DataType::Float32, ReduceOp::BitOr, {1, 2}), "bit operations");
  EXPECT_DEATH(combine(DataType::Bool, ReduceOp::Avg, {1, 1}), "average");
  EXPECT_DEATH(combine(DataType::Complex64, ReduceOp::Sum, {1, 1}), "not reduced");
}

}  // namespace
}  // namespace mccl::judge
