// Law L6 in scalar form: a NaN result is the type's one NaN, min and max are the minimum and
// maximum of IEEE 754-2019 (a NaN operand wins, -0 is less than +0), integers wrap, bool is 0 or 1,
// half types are widened to float32 and rounded to nearest even at the end.
#include "verify/reference_arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/check.h"

namespace mccl::judge {
namespace {

static_assert(std::numeric_limits<float>::is_iec559 && std::numeric_limits<double>::is_iec559);

float widen_bfloat16(uint32_t bits) {
  return std::bit_cast<float>(bits << 16);
}

uint32_t narrow_bfloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t lost = bits & 0xffff;
  const uint32_t kept = bits >> 16;
  const bool rounds_up = lost > 0x8000 || (lost == 0x8000 && (kept & 1) == 1);
  return kept + (rounds_up ? 1 : 0);
}

// Sign, 5 bits of exponent, 10 of fraction. Written with real numbers: the value is a number of
// steps, and the step is a power of two.
float widen_float16(uint32_t bits) {
  const uint32_t fraction = bits & 0x3ff;
  const auto exponent = static_cast<int>((bits >> 10) & 0x1f);
  float magnitude = 0;
  if (exponent == 31)
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(fraction), -24);
  else
    magnitude = std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint32_t narrow_float16(float value) {
  if (std::isnan(value)) return 0x7e00;
  const uint32_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::abs(value);
  if (magnitude >= 65520) return sign | 0x7c00;  // half a step above the largest, 65504
  if (magnitude == 0) return sign;
  // Steps of 2^-24 below 2^-14; above, 1024 to 2047 steps and perhaps one more by rounding.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const float scaled = std::ldexp(magnitude, 10 - exponent);
  auto steps = static_cast<uint32_t>(scaled);
  const float rest = scaled - static_cast<float>(steps);
  if (rest > 0.5f || (rest == 0.5f && steps % 2 == 1)) ++steps;
  // 2048 steps carry into the exponent by themselves, 1024 subnormal ones too.
  return sign | (static_cast<uint32_t>(exponent + 14) * 1024 + steps);
}

float widen(DataType dtype, ElementBits element) {
  const auto bits = static_cast<uint32_t>(element);
  if (dtype == DataType::Float16) return widen_float16(bits);
  if (dtype == DataType::BFloat16) return widen_bfloat16(bits);
  return std::bit_cast<float>(bits);
}

ElementBits narrow(DataType dtype, float value) {
  if (dtype == DataType::Float16) return narrow_float16(value);
  if (dtype == DataType::BFloat16) return narrow_bfloat16(value);
  return std::isnan(value) ? 0x7fc00000 : std::bit_cast<uint32_t>(value);
}

double to_double(ElementBits element) {
  return std::bit_cast<double>(static_cast<uint64_t>(element));
}

ElementBits from_double(double value) {
  return std::isnan(value) ? 0x7ff8000000000000 : std::bit_cast<uint64_t>(value);
}

template <typename T>
T smaller(T left, T right) {
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
  if (left == right) return std::signbit(left) ? left : right;
  return left < right ? left : right;
}

template <typename T>
T larger(T left, T right) {
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<T>::quiet_NaN();
  if (left == right) return std::signbit(left) ? right : left;
  return left > right ? left : right;
}

template <typename T>
T combine_floats(ReduceOp op, T left, T right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return left + right;
    case ReduceOp::Product:
      return left * right;
    case ReduceOp::Min:
      return smaller(left, right);
    case ReduceOp::Max:
      return larger(left, right);
    case ReduceOp::BitAnd:
    case ReduceOp::BitOr:
    case ReduceOp::BitXor:
      break;
  }
  MCCL_CHECK(false && "floating types have no bit operations");
  return left;
}

bool combine_bools(ReduceOp op, bool left, bool right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Max:
    case ReduceOp::BitOr:
      return left || right;
    case ReduceOp::Product:
    case ReduceOp::Min:
    case ReduceOp::BitAnd:
      return left && right;
    case ReduceOp::BitXor:
      return left != right;
    case ReduceOp::Avg:
      break;
  }
  MCCL_CHECK(false && "bool has no average");
  return left;
}

// T is the type itself; overflow wraps in the widest unsigned type and is cut.
template <typename T>
T combine_integers(ReduceOp op, T left, T right) {
  const auto wide_left = static_cast<uint64_t>(left);
  const auto wide_right = static_cast<uint64_t>(right);
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return static_cast<T>(wide_left + wide_right);
    case ReduceOp::Product:
      return static_cast<T>(wide_left * wide_right);
    case ReduceOp::Min:
      return left < right ? left : right;
    case ReduceOp::Max:
      return left < right ? right : left;
    case ReduceOp::BitAnd:
      return static_cast<T>(wide_left & wide_right);
    case ReduceOp::BitOr:
      return static_cast<T>(wide_left | wide_right);
    case ReduceOp::BitXor:
      return static_cast<T>(wide_left ^ wide_right);
  }
  return left;
}

// Calls `visit` with a value of the C++ type of an integer dtype; the result is what it returns.
template <typename Visit>
ElementBits with_integer_type(DataType dtype, Visit visit) {
  switch (dtype) {
    case DataType::Int64:
      return visit(int64_t{});
    case DataType::Int32:
      return visit(int32_t{});
    case DataType::Int16:
      return visit(int16_t{});
    case DataType::Int8:
      return visit(int8_t{});
    case DataType::UInt64:
      return visit(uint64_t{});
    case DataType::UInt32:
      return visit(uint32_t{});
    case DataType::UInt16:
      return visit(uint16_t{});
    case DataType::UInt8:
      return visit(uint8_t{});
    case DataType::Float64:
    case DataType::Float32:
    case DataType::Float16:
    case DataType::BFloat16:
    case DataType::Bool:
    case DataType::Complex64:
    case DataType::Complex128:
    case DataType::Float8E4M3FN:
    case DataType::Float8E5M2:
    case DataType::Float8E4M3FNUZ:
    case DataType::Float8E5M2FNUZ:
      break;
  }
  MCCL_CHECK(false && "a type that is not reduced");
  return {};
}

template <typename T>
ElementBits to_bits(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

bool is_float32_or_half(DataType dtype) {
  return dtype == DataType::Float32 || dtype == DataType::Float16 || dtype == DataType::BFloat16;
}

}  // namespace

ElementBits combine_elements(DataType dtype, ReduceOp op, std::span<const ElementBits> operands) {
  MCCL_CHECK(!operands.empty());
  if (operands.size() == 1) return operands[0];
  const auto rest = operands.subspan(1);
  if (dtype == DataType::Float64) {
    double result = to_double(operands[0]);
    for (const ElementBits operand : rest) result = combine_floats(op, result, to_double(operand));
    return from_double(result);
  }
  if (is_float32_or_half(dtype)) {
    float result = widen(dtype, operands[0]);
    for (const ElementBits operand : rest)
      result = combine_floats(op, result, widen(dtype, operand));
    return narrow(dtype, result);
  }
  if (dtype == DataType::Bool) {
    bool result = operands[0] != 0;
    for (const ElementBits operand : rest) result = combine_bools(op, result, operand != 0);
    return result ? 1 : 0;
  }
  return with_integer_type(dtype, [&]<typename T>(T) {
    auto result = static_cast<T>(operands[0]);
    for (const ElementBits operand : rest)
      result = combine_integers(op, result, static_cast<T>(operand));
    return to_bits(result);
  });
}

ElementBits divide_element(DataType dtype, ElementBits value, int64_t divisor) {
  MCCL_CHECK_LT(0, divisor);
  if (dtype == DataType::Float64)
    return from_double(to_double(value) / static_cast<double>(divisor));
  if (is_float32_or_half(dtype))
    return narrow(dtype, widen(dtype, value) / static_cast<float>(divisor));
  if (dtype == DataType::UInt64)
    return static_cast<uint64_t>(value) / static_cast<uint64_t>(divisor);
  return with_integer_type(dtype, [&]<typename T>(T) {
    return to_bits(static_cast<T>(static_cast<int64_t>(static_cast<T>(value)) / divisor));
  });
}

}  // namespace mccl::judge
