// Kernels of float16 and bfloat16: widened exactly, combined in float32, rounded once to nearest
// even. Compiled once per instruction set from this one file. Tests: test/unit/device,
// test/conformance.
//
// The conversions are our own (law L6): vendors' instructions flush subnormals or truncate here and
// there. A vector of halves is seen as 32-bit words: its even elements are the low halves, its odd
// ones the high halves, so that widening and narrowing shuffle nothing. Both are written for an
// element in the high half of its word.
//
// Subnormals of float16 need a shift by a distance that differs from lane to lane, which older sets
// lack. One addition of ordinary float32 numbers makes it: next to 2^-14 the last bit of a float32
// is worth less than 2^-24, next to 0.5 exactly 2^-24, the step of subnormals. The first is exact,
// the second rounds as the law asks; neither meets a subnormal that a processor could flush.
#include <array>
#include <cstring>
#include <type_traits>

#include "device/cpu_reduce.h"
#include "device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu_reduce_halves.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it chooses what highway.h defines.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
#include "device/cpu_reduce_loop.inc"
//
#include "device/cpu_operations.inc"
namespace mccl {
namespace HWY_NAMESPACE {

using Floats = Lanes<float>;
using Words = Lanes<uint32_t>;
using Integers = Lanes<int32_t>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;

struct BFloat16Format {
  static HWY_INLINE FloatVector widen_even(WordVector pairs) {
    return hn::BitCast(Floats(), hn::ShiftLeft<16>(pairs));
  }
  static HWY_INLINE FloatVector widen_odd(WordVector pairs) {
    return hn::BitCast(Floats(), hn::And(pairs, hn::Set(Words(), 0xffff0000)));
  }

  // The lower half of a word is rubbish. Overflow carries into the exponent and ends at infinity.
  // The one NaN ends in zeros and stays.
  static HWY_INLINE WordVector narrow(FloatVector value) {
    const Words words;
    const auto bits = hn::BitCast(words, value);
    const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
    return hn::Add(hn::Add(bits, hn::Set(words, 0x7fff)), is_odd);
  }
};

struct Float16Format {
  // Exponents of float32 are larger by 112; those of infinity and NaN by 224.
  static constexpr uint32_t kExponentShift = 112u << 23;

  static HWY_INLINE FloatVector widen_even(WordVector pairs) {
    return widen_odd(hn::ShiftLeft<16>(pairs));
  }

  static HWY_INLINE FloatVector widen_odd(WordVector high) {
    const Words words;
    const Integers integers;
    const auto sign = hn::And(high, hn::Set(words, 0x80000000));
    const auto magnitude = hn::ShiftRight<3>(hn::And(high, hn::Set(words, 0x7fff0000)));
    const auto rebased = hn::Add(magnitude, hn::Set(words, kExponentShift));
    const auto is_infinite_or_nan =
        hn::Gt(hn::BitCast(integers, magnitude), hn::Set(integers, (0x7c00 << 13) - 1));
    const auto second_shift = hn::IfThenElseZero(hn::RebindMask(words, is_infinite_or_nan),
                                                 hn::Set(words, kExponentShift));
    const auto normal = hn::Add(rebased, second_shift);
    const auto is_subnormal =
        hn::Lt(hn::BitCast(integers, magnitude), hn::Set(integers, 0x0400 << 13));
    const auto least_normal = hn::Set(Floats(), 0x1p-14f);
    const auto one_more = hn::Add(rebased, hn::Set(words, 1u << 23));
    const auto subnormal =
        hn::BitCast(words, hn::Sub(hn::BitCast(Floats(), one_more), least_normal));
    const auto either = hn::IfThenElse(hn::RebindMask(words, is_subnormal), subnormal, normal);
    return hn::BitCast(Floats(), hn::Or(either, sign));
  }

  // The lower half of a word is rubbish.
  static HWY_INLINE WordVector narrow(FloatVector value) {
    const Words words;
    const Integers integers;
    const auto bits = hn::BitCast(words, value);
    const auto sign = hn::And(bits, hn::Set(words, 0x80000000));
    const auto magnitude = hn::BitCast(integers, hn::And(bits, hn::Set(words, 0x7fffffff)));
    // 2^16 stands for everything from there to infinity, 1.5 * 2^16 for the one NaN.
    const auto is_nan = hn::Gt(magnitude, hn::Set(integers, 0x7f800000));
    const auto bounded =
        hn::BitCast(words, hn::IfThenElse(is_nan, hn::Set(integers, 0x47c00000),
                                          hn::Min(magnitude, hn::Set(integers, 0x47800000))));
    const auto is_odd = hn::And(hn::ShiftRight<13>(bounded), hn::Set(words, 1));
    const auto rounded = hn::Add(hn::Add(bounded, hn::Set(words, 0x0fff)), is_odd);
    const auto normal = hn::ShiftLeft<3>(hn::Sub(rounded, hn::Set(words, kExponentShift)));
    const auto half = hn::Set(Floats(), 0.5f);
    const auto shifted = hn::BitCast(words, hn::Add(hn::BitCast(Floats(), magnitude), half));
    const auto subnormal = hn::ShiftLeft<16>(hn::Sub(shifted, hn::BitCast(words, half)));
    const auto is_subnormal = hn::Lt(magnitude, hn::Set(integers, 0x38800000));  // below 2^-14
    return hn::Or(hn::IfThenElse(hn::RebindMask(words, is_subnormal), subnormal, normal), sign);
  }
};

// The even elements of an operand as float32.
template <class Format, Operand operand>
HWY_INLINE FloatVector load_even(const uint8_t* src) {
  if constexpr (operand == Operand::Wire)
    return Format::widen_even(load(Words(), src));
  else
    return load(Floats(), src);
}

template <class Format, Operand operand>
HWY_INLINE FloatVector load_odd(const uint8_t* src) {
  if constexpr (operand == Operand::Wire)
    return Format::widen_odd(load(Words(), src));
  else if constexpr (operand == Operand::Wide)
    return load(Floats(), src + hn::Lanes(Bytes()));
  else
    return load(Floats(), src);
}

template <class Format, Operand operand>
HWY_INLINE void store_even_odd(FloatVector even, FloatVector odd, uint8_t* dst) {
  if constexpr (operand == Operand::Wide) {
    store(even, dst);
    store(odd, dst + hn::Lanes(Bytes()));
  } else {
    const Lanes<uint16_t> halves;
    store(hn::OddEven(hn::BitCast(halves, Format::narrow(odd)),
                      hn::BitCast(halves, hn::ShiftRight<16>(Format::narrow(even)))),
          dst);
  }
}

template <class Format, class Op, Operand result_operand, Operand left_operand,
          Operand right_operand = Operand::Wire>
struct HalfStep {
  static constexpr size_t kElementBytes = 2;
  static constexpr Operand kResult = result_operand;
  static constexpr Operand kLeft = left_operand;
  static constexpr Operand kRight = right_operand;

  static HWY_INLINE void run(uint8_t* result, const uint8_t* left, const uint8_t* right) {
    const Floats floats;
    const auto even =
        Op::run(floats, load_even<Format, kLeft>(left), load_even<Format, kRight>(right));
    const auto odd =
        Op::run(floats, load_odd<Format, kLeft>(left), load_odd<Format, kRight>(right));
    store_even_odd<Format, kResult>(even, odd, result);
  }
};

template <class Format, class Op>
constexpr ReduceKernel half_kernel() {
  return {&combine<HalfStep<Format, Op, Operand::Wire, Operand::Wire>>,
          &combine<HalfStep<Format, Op, Operand::Wide, Operand::Wire>>,
          &combine<HalfStep<Format, Op, Operand::Wide, Operand::Wide>>,
          &combine<HalfStep<Format, Op, Operand::Wire, Operand::Wide>>};
}

template <class Format>
constexpr ReduceRow half_row(DataType dtype) {
  using Quotient = HalfStep<Format, FloatQuotient, Operand::Wire, Operand::Wire, Operand::Constant>;
  return {dtype, float_columns([]<class Op>(Op) { return half_kernel<Format, Op>(); }),
          &divide_floats<float, Quotient>};
}

constexpr std::array kHalfRows = {half_row<Float16Format>(DataType::Float16),
                                  half_row<BFloat16Format>(DataType::BFloat16)};

ReduceRows half_rows() {
  return {HWY_TARGET, kHalfRows};
}

}  // namespace HWY_NAMESPACE
}  // namespace mccl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccl {

HWY_EXPORT(half_rows);

ReduceRows cpu_reduce_halves() {
  return HWY_DYNAMIC_DISPATCH(half_rows)();
}

}  // namespace mccl
#endif  // HWY_ONCE
