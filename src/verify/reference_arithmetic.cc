// Law L6 in scalar form: a NaN result is the type's one NaN, min and max are the minimum and
// maximum of IEEE 754-2019 (a NaN operand wins, -0 is less than +0), int64 wraps, bfloat16 is
// widened to float32 and rounded to nearest even by integer arithmetic. A float32 sum or quotient
// of two bfloat16 values rounds to bfloat16 as the exact one would: 24 bits are more than twice 8,
// plus two.
#include "verify/reference_arithmetic.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace mccl::judge {
namespace {

static_assert(std::numeric_limits<float>::is_iec559);

constexpr uint32_t kFloat32NaN = 0x7fc00000;
constexpr uint32_t kBFloat16NaN = 0x7fc0;

float widen(DataType dtype, ElementBits bits) {
  const auto low = static_cast<uint32_t>(bits);
  return std::bit_cast<float>(dtype == DataType::BFloat16 ? low << 16 : low);
}

ElementBits narrow(DataType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DataType::Float32) return std::isnan(value) ? kFloat32NaN : bits;
  if (std::isnan(value)) return kBFloat16NaN;
  const uint32_t lost = bits & 0xffff;
  const uint32_t kept = bits >> 16;
  const bool rounds_up = lost > 0x8000 || (lost == 0x8000 && (kept & 1) == 1);
  return kept + (rounds_up ? 1 : 0);
}

float smaller(float left, float right) {
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<float>::quiet_NaN();
  if (left == right) return std::signbit(left) ? left : right;
  return left < right ? left : right;
}

float larger(float left, float right) {
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<float>::quiet_NaN();
  if (left == right) return std::signbit(left) ? right : left;
  return left > right ? left : right;
}

float combine_floats(ReduceOp op, float left, float right) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return left + right;
    case ReduceOp::Min:
      return smaller(left, right);
    case ReduceOp::Max:
      return larger(left, right);
  }
  return left;
}

uint64_t combine_integers(ReduceOp op, uint64_t left, uint64_t right) {
  const bool left_is_less = std::bit_cast<int64_t>(left) < std::bit_cast<int64_t>(right);
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      return left + right;  // unsigned, so that it wraps
    case ReduceOp::Min:
      return left_is_less ? left : right;
    case ReduceOp::Max:
      return left_is_less ? right : left;
  }
  return left;
}

}  // namespace

ElementBits combine_elements(DataType dtype, ReduceOp op, std::span<const ElementBits> operands) {
  MCCL_CHECK(!operands.empty());
  if (operands.size() == 1) return operands[0];
  if (dtype == DataType::Int64) {
    uint64_t result = operands[0];
    for (const ElementBits operand : operands.subspan(1))
      result = combine_integers(op, result, operand);
    return result;
  }
  float result = widen(dtype, operands[0]);
  for (const ElementBits operand : operands.subspan(1))
    result = combine_floats(op, result, widen(dtype, operand));
  return narrow(dtype, result);
}

ElementBits divide_element(DataType dtype, ElementBits value, int64_t divisor) {
  MCCL_CHECK_LT(0, divisor);
  if (dtype == DataType::Int64)
    return std::bit_cast<uint64_t>(std::bit_cast<int64_t>(value) / divisor);
  return narrow(dtype, widen(dtype, value) / static_cast<float>(divisor));
}

}  // namespace mccl::judge
