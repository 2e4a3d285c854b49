// The division of Avg for integers, which no instruction set here has for vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace mccl {

// data[i] = data[i] / divisor, toward zero. Any alignment; divisor is positive.
//
// Up to 32 bits the quotient is made in float64, which compilers turn into vectors. A quotient that
// is no integer is at least 1 / divisor away from one, and float64 is off by less than a millionth
// of that; a divisor that float64 rounds is so large that the quotient is 0.
template <class T>
void divide_integers(void* data, size_t count, int64_t divisor) {
  auto* bytes = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < count; ++i) {
    T value = 0;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) <= sizeof(uint32_t))
      value = static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
    else
      value /= static_cast<T>(divisor);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace mccl
