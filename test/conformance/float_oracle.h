// Floating-point arithmetic in integers: the oracle of the device suite. Slow and obvious; shares
// no idea with the kernels, and no setting of the processor reaches it. Values are bit patterns.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace mccl::oracle {

inline constexpr uint32_t kNan = 0x7fc00000;
inline constexpr uint32_t kInfinity = 0x7f800000;
inline constexpr int kFloat32Precision = 24;  // bits of a significand, the hidden one included
inline constexpr int kBFloat16Precision = 8;

// (-1)^negative * significand * 2^exponent; significand is below 2^24.
struct Finite {
  bool negative;
  uint64_t significand;
  int exponent;
};

inline uint32_t magnitude(uint32_t value) {
  return value & 0x7fffffff;
}
inline uint32_t sign(uint32_t value) {
  return value & 0x80000000;
}
inline bool is_nan(uint32_t value) {
  return magnitude(value) > kInfinity;
}
inline bool is_infinite(uint32_t value) {
  return magnitude(value) == kInfinity;
}

inline Finite decode(uint32_t value) {
  const uint32_t field = magnitude(value) >> 23;
  const uint32_t fraction = value & 0x7fffff;
  if (field == 0) return {sign(value) != 0, fraction, -149};
  return {sign(value) != 0, fraction | 0x800000, static_cast<int>(field) - 150};
}

// Rounds to nearest even into a format with an 8-bit exponent. A lost lowest bit may stand for any
// smaller remainder, if two bits or more are lost.
inline uint32_t encode(Finite value, int precision) {
  const uint32_t sign_bit = value.negative ? 1u << (precision + 7) : 0;
  const int bits = 64 - std::countl_zero(value.significand);
  const int shift = std::max(bits - precision, -126 - (precision - 1) - value.exponent);
  if (shift > bits) return sign_bit;
  uint64_t significand = value.significand;
  if (shift > 0) {
    const uint64_t half = uint64_t{1} << (shift - 1);
    const uint64_t lost = significand & (2 * half - 1);
    significand = shift == 64 ? 0 : significand >> shift;
    if (lost > half || (lost == half && significand % 2 == 1)) ++significand;
  } else {
    significand <<= -shift;
  }
  const uint64_t hidden = uint64_t{1} << (precision - 1);
  uint64_t word = significand;
  if (significand >= hidden) {
    const auto field = static_cast<uint64_t>(value.exponent + shift + 127 + precision - 1);
    word = (field << (precision - 1)) + (significand - hidden);
  }
  const uint64_t infinity = uint64_t{0xff} << (precision - 1);
  return sign_bit | static_cast<uint32_t>(std::min(word, infinity));
}

inline uint32_t add(uint32_t left, uint32_t right) {
  if (is_nan(left) || is_nan(right)) return kNan;
  if (is_infinite(left) && is_infinite(right) && left != right) return kNan;
  if (is_infinite(left)) return left;
  if (is_infinite(right)) return right;
  Finite big = decode(left);
  Finite small = decode(right);
  if (big.exponent < small.exponent) std::swap(big, small);
  // 32 spare bits below; what is shifted out beyond them is remembered in the lowest.
  const int distance = big.exponent - small.exponent;
  const uint64_t wide = small.significand << 32;
  uint64_t aligned = distance < 64 ? wide >> distance : 0;
  if (distance >= 64 ? wide != 0 : (aligned << distance) != wide) aligned |= 1;
  const auto signed_value = [](bool negative, uint64_t value) {
    return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  };
  const int64_t sum =
      signed_value(big.negative, big.significand << 32) + signed_value(small.negative, aligned);
  if (sum == 0) return sign(left) & sign(right);
  return encode({sum < 0, static_cast<uint64_t>(sum < 0 ? -sum : sum), big.exponent - 32},
                kFloat32Precision);
}

// By a divisor that is finite and not zero.
inline uint32_t divide(uint32_t value, uint32_t divisor) {
  const uint32_t result_sign = sign(value ^ divisor);
  if (is_nan(value)) return kNan;
  if (is_infinite(value)) return result_sign | kInfinity;
  if (magnitude(value) == 0) return result_sign;
  Finite over = decode(value);
  const Finite under = decode(divisor);
  const int shift = std::countl_zero(over.significand);
  over.significand <<= shift;
  uint64_t quotient = over.significand / under.significand;
  if (quotient * under.significand != over.significand) quotient |= 1;
  return encode({result_sign != 0, quotient, over.exponent - shift - under.exponent},
                kFloat32Precision);
}

inline uint32_t from_integer(int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return encode({value < 0, value < 0 ? 0 - bits : bits, 0}, kFloat32Precision);
}

// IEEE 754-2019 minimum and maximum.
inline uint32_t min(uint32_t left, uint32_t right) {
  if (is_nan(left) || is_nan(right)) return kNan;
  const auto order = [](uint32_t value) {
    return sign(value) ? -1 - static_cast<int64_t>(magnitude(value))
                       : static_cast<int64_t>(magnitude(value));
  };
  return order(left) < order(right) ? left : right;
}
inline uint32_t max(uint32_t left, uint32_t right) {
  if (is_nan(left) || is_nan(right)) return kNan;
  return min(left, right) == left ? right : left;
}

inline uint32_t widen(uint16_t value) {
  return static_cast<uint32_t>(value) << 16;
}

inline uint16_t narrow(uint32_t value) {
  if (is_nan(value)) return static_cast<uint16_t>(kNan >> 16);
  if (is_infinite(value)) return static_cast<uint16_t>(value >> 16);
  return static_cast<uint16_t>(encode(decode(value), kBFloat16Precision));
}

}  // namespace mccl::oracle
