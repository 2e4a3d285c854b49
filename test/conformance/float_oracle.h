// Floating-point arithmetic in integers: the oracle of the device suite. Slow and obvious; shares
// no idea with the kernels, and no setting of the processor reaches it. Values are bit patterns in
// the low bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

namespace mccl::oracle {

__extension__ using Wide = unsigned __int128;
__extension__ using SignedWide = __int128;

struct Format {
  int exponent_bits;
  int precision;  // bits of a significand, the hidden one included

  int fraction_bits() const { return precision - 1; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint64_t sign_bit() const { return uint64_t{1} << (exponent_bits + fraction_bits()); }
  uint64_t infinity() const { return ((uint64_t{1} << exponent_bits) - 1) << fraction_bits(); }
  // Quiet, positive, no payload.
  uint64_t nan() const { return infinity() | (uint64_t{1} << (fraction_bits() - 1)); }
  uint64_t one() const { return static_cast<uint64_t>(bias()) << fraction_bits(); }
};

inline constexpr Format kFloat64 = {11, 53};
inline constexpr Format kFloat32 = {8, 24};
inline constexpr Format kFloat16 = {5, 11};
inline constexpr Format kBFloat16 = {8, 8};

// (-1)^negative * significand * 2^exponent.
struct Finite {
  bool negative;
  Wide significand;
  int exponent;
};

inline uint64_t magnitude(const Format& format, uint64_t value) {
  return value & (format.sign_bit() - 1);
}
inline uint64_t sign(const Format& format, uint64_t value) {
  return value & format.sign_bit();
}
inline bool is_nan(const Format& format, uint64_t value) {
  return magnitude(format, value) > format.infinity();
}
inline bool is_infinite(const Format& format, uint64_t value) {
  return magnitude(format, value) == format.infinity();
}

inline Finite decode(const Format& format, uint64_t value) {
  const uint64_t field = magnitude(format, value) >> format.fraction_bits();
  const uint64_t hidden = uint64_t{1} << format.fraction_bits();
  const uint64_t fraction = value & (hidden - 1);
  const int unit = 1 - format.bias() - format.fraction_bits();  // exponent of the last bit, least
  if (field == 0) return {sign(format, value) != 0, fraction, unit};
  return {sign(format, value) != 0, fraction | hidden, unit + static_cast<int>(field) - 1};
}

inline int bit_width(Wide value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  return high != 0 ? 128 - std::countl_zero(high)
                   : 64 - std::countl_zero(static_cast<uint64_t>(value));
}

// Rounds to nearest even. A lost lowest bit may stand for any smaller remainder, if two bits or
// more are lost.
inline uint64_t encode(const Format& format, Finite value) {
  const uint64_t sign_bit = value.negative ? format.sign_bit() : 0;
  const int unit = 1 - format.bias() - format.fraction_bits();
  const int bits = bit_width(value.significand);
  const int shift = std::max(bits - format.precision, unit - value.exponent);
  if (shift > bits) return sign_bit;
  Wide significand = value.significand;
  if (shift > 0) {
    const Wide half = Wide{1} << (shift - 1);
    const Wide lost = significand & (2 * half - 1);
    significand = shift == 128 ? 0 : significand >> shift;
    if (lost > half || (lost == half && significand % 2 == 1)) ++significand;
  } else {
    significand <<= -shift;
  }
  const Wide hidden = Wide{1} << format.fraction_bits();
  Wide word = significand;
  if (significand >= hidden) {
    const auto field = static_cast<uint64_t>(value.exponent + shift - unit + 1);
    word = (Wide{field} << format.fraction_bits()) + (significand - hidden);
  }
  return sign_bit | static_cast<uint64_t>(std::min(word, Wide{format.infinity()}));
}

inline uint64_t add(const Format& format, uint64_t left, uint64_t right) {
  if (is_nan(format, left) || is_nan(format, right)) return format.nan();
  if (is_infinite(format, left) && is_infinite(format, right) && left != right) return format.nan();
  if (is_infinite(format, left)) return left;
  if (is_infinite(format, right)) return right;
  Finite big = decode(format, left);
  Finite small = decode(format, right);
  if (big.exponent < small.exponent) std::swap(big, small);
  // 64 spare bits below; what is shifted out beyond them is remembered in the lowest.
  const int distance = big.exponent - small.exponent;
  const Wide wide = small.significand << 64;
  Wide aligned = distance < 128 ? wide >> distance : 0;
  if (distance >= 128 ? wide != 0 : (aligned << distance) != wide) aligned |= 1;
  const auto signed_value = [](bool negative, Wide value) {
    return negative ? -static_cast<SignedWide>(value) : static_cast<SignedWide>(value);
  };
  const SignedWide sum =
      signed_value(big.negative, big.significand << 64) + signed_value(small.negative, aligned);
  if (sum == 0) return sign(format, left) & sign(format, right);
  return encode(format, {sum < 0, static_cast<Wide>(sum < 0 ? -sum : sum), big.exponent - 64});
}

inline uint64_t multiply(const Format& format, uint64_t left, uint64_t right) {
  if (is_nan(format, left) || is_nan(format, right)) return format.nan();
  const uint64_t result_sign = sign(format, left ^ right);
  const bool has_zero = magnitude(format, left) == 0 || magnitude(format, right) == 0;
  if (is_infinite(format, left) || is_infinite(format, right))
    return has_zero ? format.nan() : result_sign | format.infinity();
  const Finite first = decode(format, left);
  const Finite second = decode(format, right);
  return encode(format, {result_sign != 0, first.significand * second.significand,
                         first.exponent + second.exponent});
}

// By a divisor that is finite and not zero.
inline uint64_t divide(const Format& format, uint64_t value, uint64_t divisor) {
  const uint64_t result_sign = sign(format, value ^ divisor);
  if (is_nan(format, value)) return format.nan();
  if (is_infinite(format, value)) return result_sign | format.infinity();
  if (magnitude(format, value) == 0) return result_sign;
  Finite over = decode(format, value);
  const Finite under = decode(format, divisor);
  const int shift = 128 - bit_width(over.significand);
  over.significand <<= shift;
  Wide quotient = over.significand / under.significand;
  if (quotient * under.significand != over.significand) quotient |= 1;
  return encode(format, {result_sign != 0, quotient, over.exponent - shift - under.exponent});
}

inline uint64_t from_integer(const Format& format, int64_t value) {
  const auto bits = static_cast<uint64_t>(value);
  return encode(format, {value < 0, value < 0 ? 0 - bits : bits, 0});
}

// IEEE 754-2019 minimum and maximum.
inline uint64_t min(const Format& format, uint64_t left, uint64_t right) {
  if (is_nan(format, left) || is_nan(format, right)) return format.nan();
  const auto order = [&](uint64_t value) {
    const auto distance = static_cast<int64_t>(magnitude(format, value));
    return sign(format, value) != 0 ? -1 - distance : distance;
  };
  return order(left) < order(right) ? left : right;
}
inline uint64_t max(const Format& format, uint64_t left, uint64_t right) {
  if (is_nan(format, left) || is_nan(format, right)) return format.nan();
  return min(format, left, right) == left ? right : left;
}

inline uint64_t convert(const Format& from, const Format& to, uint64_t value) {
  if (is_nan(from, value)) return to.nan();
  const uint64_t sign_bit = sign(from, value) != 0 ? to.sign_bit() : 0;
  if (is_infinite(from, value)) return sign_bit | to.infinity();
  return encode(to, decode(from, value));
}

}  // namespace mccl::oracle
