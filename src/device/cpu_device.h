// Host memory and host arithmetic.
#pragma once

#include "device/cpu_reduce.h"
#include "mccl/device.h"

namespace mccl {

// Serves every pair of type and operation that has a meaning. Stateless after construction: any
// number of threads. Setting and restoring the floating-point control register is part of each
// call.
class CpuDevice final : public Device {
 public:
  // Chooses the best instruction set of this machine.
  CpuDevice();

  bool supports(DataType dtype, ReduceOp op) const override;
  void reduce(DataType dtype, ReduceOp op, void* result, const void* left, const void* right,
              size_t count) const override;
  // Needs at least one source. With exactly one no operation is done: the bits are copied.
  void fold(DataType dtype, ReduceOp op, std::span<void* const> destinations,
            std::span<const void* const> sources, size_t count) const override;
  void divide(DataType dtype, void* data, size_t count, int64_t divisor) const override;

 private:
  CpuReduceTable table_;
};

}  // namespace mccl
