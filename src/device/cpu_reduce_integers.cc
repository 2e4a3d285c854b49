// Kernels of the integer types and of bool. Compiled once per instruction set from this one file.
// Tests: test/unit/device, test/conformance.
#include <array>
#include <cstring>
#include <type_traits>

#include "device/cpu_reduce.h"
#include "device/highway_targets.h"
#include "device/integer_divide.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu_reduce_integers.cc"
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
constexpr ReduceRow integer_row(DataType dtype) {
  return {dtype, integer_columns<T>(), &divide_integers<T>};
}

constexpr std::array kIntegerRows = {
    integer_row<int64_t>(DataType::Int64),
    integer_row<int32_t>(DataType::Int32),
    integer_row<int16_t>(DataType::Int16),
    integer_row<int8_t>(DataType::Int8),
    integer_row<uint64_t>(DataType::UInt64),
    integer_row<uint32_t>(DataType::UInt32),
    integer_row<uint16_t>(DataType::UInt16),
    integer_row<uint8_t>(DataType::UInt8),
    ReduceRow{DataType::Bool, bool_columns(), nullptr},
};

ReduceRows integer_rows() {
  return {HWY_TARGET, kIntegerRows};
}

}  // namespace HWY_NAMESPACE
}  // namespace mccl
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace mccl {

HWY_EXPORT(integer_rows);

ReduceRows cpu_reduce_integers() {
  return HWY_DYNAMIC_DISPATCH(integer_rows)();
}

}  // namespace mccl
#endif  // HWY_ONCE
