// Integer arithmetic for plans: products of bytes and nanoseconds need 128 bits on the way, and
// every rank must get the same result, so nothing here is floating point.
#pragma once

#include <cstdint>
#include <limits>

namespace mccl {

__extension__ using WideInteger = __int128;

// Quotient rounded up. `value` >= 0, `divisor` > 0.
constexpr WideInteger divide_up(WideInteger value, WideInteger divisor) {
  return (value + divisor - 1) / divisor;
}

// The largest int64_t where `value` is larger still: a cost that does not fit is merely large.
constexpr int64_t saturate(WideInteger value) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return value > kMax ? kMax : static_cast<int64_t>(value);
}

// Both >= 0 and far below the limit in every use, except where saturation is meant.
constexpr int64_t divide_up_bytes(int64_t bytes, int64_t divisor) {
  return saturate(divide_up(bytes, divisor));
}

}  // namespace mccl
