// Reduction kernels on Highway, compiled once per instruction set from this one file.
//
// Law L6 decides the arithmetic: every result is the same bit pattern on every target and for both
// orders of the operands. A NaN result becomes one constant, because x86 would return the first
// operand's payload. min and max select by IEEE 754-2019 whatever the instruction does with zeros
// and NaN. bfloat16 is widened exactly, combined in float32 and rounded by integer code. A vector
// of bfloat16 is seen as 32-bit words: its even elements are the low halves, its odd ones the high
// halves, so that widening and narrowing shuffle nothing.
//
// Memory is moved as bytes: no alignment is assumed. Tests: test/unit/device, test/conformance.

// Highway gives up its portable target EMU128 for g++ before 12.3, because of a wrong vectorisation
// that is known on 32-bit and PowerPC machines only; its one-lane substitute could not run this
// file. The golden vectors run on EMU128 too.
#ifndef HWY_BROKEN_EMU128
#define HWY_BROKEN_EMU128 0
#endif

#include "device/cpu_reduce.h"

#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu_reduce.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it chooses what highway.h defines.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace mccl {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::CappedTag<uint8_t, kVectorBytesMax>;
using Halves = hn::Repartition<uint16_t, Bytes>;
using Words = hn::Repartition<uint32_t, Bytes>;
using Floats = hn::Repartition<float, Bytes>;
using Integers = hn::Repartition<int64_t, Bytes>;
using UnsignedIntegers = hn::Repartition<uint64_t, Bytes>;

constexpr uint32_t kNanWord = 0x7fc00000;

// Whether a step's operand is one vector of wire elements, two vectors of float32, or a constant
// that stays in place: how far its pointer moves per vector of wire elements.
enum class Operand : size_t { Constant = 0, Wire = 1, Wide = 2 };

template <class D>
HWY_INLINE hn::Vec<D> load(D tag, const uint8_t* src) {
  return hn::BitCast(tag, hn::LoadU(Bytes(), src));
}

template <class V>
HWY_INLINE void store(V vector, uint8_t* dst) {
  hn::StoreU(hn::BitCast(Bytes(), vector), Bytes(), dst);
}

template <class V>
HWY_INLINE V with_one_nan(V value) {
  const auto nan = hn::BitCast(Floats(), hn::Set(Words(), kNanWord));
  return hn::IfThenElse(hn::IsNaN(value), nan, value);
}

template <class V>
HWY_INLINE V nan_if_either(V left, V right, V value) {
  const auto nan = hn::BitCast(Floats(), hn::Set(Words(), kNanWord));
  return hn::IfThenElse(hn::Or(hn::IsNaN(left), hn::IsNaN(right)), nan, value);
}

struct Sum {
  template <class V>
  static HWY_INLINE V of_floats(V left, V right) {
    return with_one_nan(hn::Add(left, right));
  }
  // Unsigned: overflow wraps.
  template <class V>
  static HWY_INLINE V of_integers(V left, V right) {
    const UnsignedIntegers wrapping;
    return hn::BitCast(Integers(),
                       hn::Add(hn::BitCast(wrapping, left), hn::BitCast(wrapping, right)));
  }
};

// Both orders of the instruction differ only for zeros of two signs (and NaN, which is replaced):
// Or keeps a minus, And drops it.
struct Min {
  template <class V>
  static HWY_INLINE V of_floats(V left, V right) {
    return nan_if_either(left, right, hn::Or(hn::Min(left, right), hn::Min(right, left)));
  }
  template <class V>
  static HWY_INLINE V of_integers(V left, V right) {
    return hn::Min(left, right);
  }
};

struct Max {
  template <class V>
  static HWY_INLINE V of_floats(V left, V right) {
    return nan_if_either(left, right, hn::And(hn::Max(left, right), hn::Max(right, left)));
  }
  template <class V>
  static HWY_INLINE V of_integers(V left, V right) {
    return hn::Max(left, right);
  }
};

struct Quotient {
  template <class V>
  static HWY_INLINE V of_floats(V left, V right) {
    return with_one_nan(hn::Div(left, right));
  }
};

template <class Op, Operand right_operand = Operand::Wire>
struct Float32Step {
  static constexpr size_t kElementBytes = 4;
  static constexpr Operand kResult = Operand::Wire;
  static constexpr Operand kLeft = Operand::Wire;
  static constexpr Operand kRight = right_operand;

  static HWY_INLINE void run(uint8_t* result, const uint8_t* left, const uint8_t* right) {
    store(Op::of_floats(load(Floats(), left), load(Floats(), right)), result);
  }
};

template <class Op>
struct Int64Step {
  static constexpr size_t kElementBytes = 8;
  static constexpr Operand kResult = Operand::Wire;
  static constexpr Operand kLeft = Operand::Wire;
  static constexpr Operand kRight = Operand::Wire;

  static HWY_INLINE void run(uint8_t* result, const uint8_t* left, const uint8_t* right) {
    store(Op::of_integers(load(Integers(), left), load(Integers(), right)), result);
  }
};

// The even elements of an operand as float32.
template <Operand operand>
HWY_INLINE hn::Vec<Floats> load_even(const uint8_t* src) {
  if constexpr (operand == Operand::Wire)
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(load(Words(), src)));
  else
    return load(Floats(), src);
}

template <Operand operand>
HWY_INLINE hn::Vec<Floats> load_odd(const uint8_t* src) {
  if constexpr (operand == Operand::Wire)
    return hn::BitCast(Floats(), hn::And(load(Words(), src), hn::Set(Words(), 0xffff0000u)));
  else if constexpr (operand == Operand::Wide)
    return load(Floats(), src + hn::Lanes(Bytes()));
  else
    return load(Floats(), src);
}

// The upper half of each word, rounded to nearest even; the lower half is rubbish. Overflow carries
// into the exponent and ends at infinity. The one NaN ends in zeros and stays.
template <class V>
HWY_INLINE hn::Vec<Words> rounded_to_upper_half(V value) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  return hn::Add(hn::Add(bits, hn::Set(words, 0x7fff)), is_odd);
}

template <Operand operand, class V>
HWY_INLINE void store_even_odd(V even, V odd, uint8_t* dst) {
  if constexpr (operand == Operand::Wide) {
    store(even, dst);
    store(odd, dst + hn::Lanes(Bytes()));
  } else {
    const Halves halves;
    store(hn::OddEven(hn::BitCast(halves, rounded_to_upper_half(odd)),
                      hn::BitCast(halves, hn::ShiftRight<16>(rounded_to_upper_half(even)))),
          dst);
  }
}

template <class Op, Operand result_operand, Operand left_operand,
          Operand right_operand = Operand::Wire>
struct BFloat16Step {
  static constexpr size_t kElementBytes = 2;
  static constexpr Operand kResult = result_operand;
  static constexpr Operand kLeft = left_operand;
  static constexpr Operand kRight = right_operand;

  static HWY_INLINE void run(uint8_t* result, const uint8_t* left, const uint8_t* right) {
    const auto even = Op::of_floats(load_even<kLeft>(left), load_even<kRight>(right));
    const auto odd = Op::of_floats(load_odd<kLeft>(left), load_odd<kRight>(right));
    store_even_odd<kResult>(even, odd, result);
  }
};

template <class Step>
void combine(void* result_memory, const void* left_memory, const void* right_memory, size_t count);

// The last, partial vector, as a whole one. Wire operands go through a padded copy; wide ones and
// constants have room for a whole vector.
template <class Step>
void combine_tail(uint8_t* result, const uint8_t* left, const uint8_t* right, size_t bytes) {
  alignas(kVectorBytesMax) uint8_t result_copy[kVectorBytesMax];
  alignas(kVectorBytesMax) uint8_t left_copy[kVectorBytesMax] = {};
  alignas(kVectorBytesMax) uint8_t right_copy[kVectorBytesMax] = {};
  if constexpr (Step::kLeft == Operand::Wire) std::memcpy(left_copy, left, bytes);
  if constexpr (Step::kRight == Operand::Wire) std::memcpy(right_copy, right, bytes);
  combine<Step>(Step::kResult == Operand::Wire ? result_copy : result,
                Step::kLeft == Operand::Wire ? left_copy : left,
                Step::kRight == Operand::Wire ? right_copy : right,
                hn::Lanes(Bytes()) / Step::kElementBytes);
  if constexpr (Step::kResult == Operand::Wire) std::memcpy(result, result_copy, bytes);
}

template <class Step>
void combine(void* result_memory, const void* left_memory, const void* right_memory, size_t count) {
  auto* result = static_cast<uint8_t*>(result_memory);
  const auto* left = static_cast<const uint8_t*>(left_memory);
  const auto* right = static_cast<const uint8_t*>(right_memory);
  constexpr auto kResult = static_cast<size_t>(Step::kResult);
  constexpr auto kLeft = static_cast<size_t>(Step::kLeft);
  constexpr auto kRight = static_cast<size_t>(Step::kRight);
  const size_t bytes = count * Step::kElementBytes;
  const size_t vector_bytes = hn::Lanes(Bytes());
  size_t at = 0;
  for (; at + vector_bytes <= bytes; at += vector_bytes)
    Step::run(result + at * kResult, left + at * kLeft, right + at * kRight);
  if (at < bytes)
    combine_tail<Step>(result + at * kResult, left + at * kLeft, right + at * kRight, bytes - at);
}

template <class Step>
void divide_floats(void* data, size_t count, int64_t divisor) {
  alignas(kVectorBytesMax) std::array<float, kVectorBytesMax / sizeof(float)> divisors;
  divisors.fill(static_cast<float>(divisor));
  combine<Step>(data, data, divisors.data(), count);
}

// No instruction set here divides 64-bit vectors.
void divide_int64(void* data, size_t count, int64_t divisor) {
  auto* bytes = static_cast<uint8_t*>(data);
  for (size_t i = 0; i < count; ++i) {
    int64_t value = 0;
    std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    // The quotient by -1 is a negation that may wrap.
    value =
        divisor == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(value)) : value / divisor;
    std::memcpy(bytes + i * sizeof(value), &value, sizeof(value));
  }
}

// Types whose accumulator is the wire type: all four kernels are one.
template <class Step>
constexpr ReduceKernel plain_kernel() {
  return {&combine<Step>, &combine<Step>, &combine<Step>, &combine<Step>};
}

template <class Op>
constexpr ReduceKernel bfloat16_kernel() {
  return {&combine<BFloat16Step<Op, Operand::Wire, Operand::Wire>>,
          &combine<BFloat16Step<Op, Operand::Wide, Operand::Wire>>,
          &combine<BFloat16Step<Op, Operand::Wide, Operand::Wide>>,
          &combine<BFloat16Step<Op, Operand::Wire, Operand::Wide>>};
}

// Rows and columns in the order of DataType and ReduceOp; Avg adds.
constexpr CpuReduceTable kTable = {
    HWY_TARGET,
    {{
        {plain_kernel<Float32Step<Sum>>(), plain_kernel<Float32Step<Sum>>(),
         plain_kernel<Float32Step<Min>>(), plain_kernel<Float32Step<Max>>()},
        {bfloat16_kernel<Sum>(), bfloat16_kernel<Sum>(), bfloat16_kernel<Min>(),
         bfloat16_kernel<Max>()},
        {plain_kernel<Int64Step<Sum>>(), plain_kernel<Int64Step<Sum>>(),
         plain_kernel<Int64Step<Min>>(), plain_kernel<Int64Step<Max>>()},
    }},
    {&divide_floats<Float32Step<Quotient, Operand::Constant>>,
     &divide_floats<BFloat16Step<Quotient, Operand::Wire, Operand::Wire, Operand::Constant>>,
     &divide_int64},
};

const CpuReduceTable& reduce_table() {
  return kTable;
}

}  // namespace HWY_NAMESPACE
}  // namespace mccl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccl {

HWY_EXPORT(reduce_table);

const CpuReduceTable& cpu_reduce_table() {
  return HWY_DYNAMIC_DISPATCH(reduce_table)();
}

}  // namespace mccl
#endif  // HWY_ONCE
