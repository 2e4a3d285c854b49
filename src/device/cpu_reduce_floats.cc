// Kernels of float64 and float32. Compiled once per instruction set from this one file. Tests:
// test/unit/device, test/conformance.
#include <array>
#include <cstring>
#include <type_traits>

#include "device/cpu_reduce.h"
#include "device/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu_reduce_floats.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it chooses what highway.h defines.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
#include "device/cpu_reduce_loop.inc"
//
#include "device/cpu_operations.inc"
namespace mccl {
namespace HWY_NAMESPACE {

template <class T>
constexpr ReduceRow float_row(DataType dtype) {
  return {dtype, float_columns([]<class Op>(Op) { return plain_kernel<T, Op>(); }),
          &divide_floats<T, PlainStep<T, FloatQuotient, Operand::Constant>>};
}

constexpr std::array kFloatRows = {float_row<double>(DataType::Float64),
                                   float_row<float>(DataType::Float32)};

ReduceRows float_rows() {
  return {HWY_TARGET, kFloatRows};
}

}  // namespace HWY_NAMESPACE
}  // namespace mccl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccl {

HWY_EXPORT(float_rows);

ReduceRows cpu_reduce_floats() {
  return HWY_DYNAMIC_DISPATCH(float_rows)();
}

}  // namespace mccl
#endif  // HWY_ONCE
