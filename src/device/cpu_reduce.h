// The kernel table of the CPU: operation x data type, in the best instruction set of this machine.
// Policy (blocks, the control register) is in cpu_device.cc; loops are here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mccl/types.h"

namespace mccl {

// The longest vector that a kernel uses; an accumulator is read and written in whole vectors.
inline constexpr size_t kVectorBytesMax = 64;

// result[i] = op(left[i], right[i]). Pointers have any alignment; result may be left or right. The
// caller holds a FloatControlGuard. Any thread.
using CombineFunction = void (*)(void* result, const void* left, const void* right, size_t count);

// One operation on one type. A fold is start, accumulate ..., finish. An accumulator belongs to one
// count and table; its elements are the wire type's, or float32 for bfloat16, in an order of its
// own; it is as long as `count` elements, rounded up to two vectors of kVectorBytesMax.
struct ReduceKernel {
  CombineFunction combine;     // wire, wire -> wire
  CombineFunction start;       // wire, wire -> accumulator
  CombineFunction accumulate;  // accumulator, wire -> accumulator
  CombineFunction finish;      // accumulator, wire -> wire, rounded here and only here
};

// data[i] = data[i] / divisor. Pointers, register and thread as above; divisor is not zero.
using DivideFunction = void (*)(void* data, size_t count, int64_t divisor);

// Indexed by DataType, then ReduceOp.
struct CpuReduceTable {
  int64_t target;  // Highway's bit for the instruction set
  std::array<std::array<ReduceKernel, 4>, 3> kernels;
  std::array<DivideFunction, 3> divide;
};

// The best table for this machine; lives for ever. The first call asks the processor.
const CpuReduceTable& cpu_reduce_table();

}  // namespace mccl
