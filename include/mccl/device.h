// For writers of devices: arithmetic on a device's memory.
//
// Implementers guarantee law L6: bitwise commutative and equal on every CPU; half types are rounded
// to nearest even by integer code with subnormals kept; min and max are IEEE 754-2019 minimum and
// maximum, a NaN result is one constant per type; integers wrap; bool results are exactly 0 or 1;
// the floating-point control register is set and restored. test/conformance/device_test.cc checks
// every implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mccl/types.h"

namespace mccl {

class Device {
 public:
  virtual ~Device() = default;

  // Whether reduce() and fold() serve the pair: exactly where is_reduction_defined() of
  // src/base/dtype.h, which also words the refusal. Nothing below is called with another pair.
  virtual bool supports(DataType dtype, ReduceOp op) const = 0;

  // result[i] = op(left[i], right[i]) for `count` elements. `result` may be `left` or `right`, else
  // they do not overlap. Any alignment. Avg adds; the division is divide(). Any thread, does not
  // block.
  virtual void reduce(DataType dtype, ReduceOp op, void* result, const void* left,
                      const void* right, size_t count) const = 0;

  // Every destination[i] = the left fold of the sources in their order, accumulated in the type's
  // accumulation type (float32 for half types) and rounded once. A destination may be a source.
  // One source is copied, not reduced: its bits stay.
  virtual void fold(DataType dtype, ReduceOp op, std::span<void* const> destinations,
                    std::span<const void* const> sources, size_t count) const = 0;

  // data[i] = data[i] / divisor by one true division (integers toward zero): the second half of
  // Avg. `divisor` is positive; not for bool.
  virtual void divide(DataType dtype, void* data, size_t count, int64_t divisor) const = 0;
};

}  // namespace mccl
