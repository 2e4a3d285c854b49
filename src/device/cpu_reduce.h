// The kernel table of the CPU: operation x data type, in the best instruction set of this machine.
// Policy (blocks, the control register) is in cpu_device.cc; loops are in cpu_reduce_loop.inc,
// operations in cpu_operations.inc, and types in cpu_reduce_<family>.cc.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mccl/types.h"

namespace mccl {

// The longest vector that a kernel uses; an accumulator is read and written in whole vectors.
inline constexpr size_t kVectorBytesMax = 64;

// result[i] = op(left[i], right[i]). Pointers have any alignment; result may be left or right. The
// caller holds a FloatControlGuard. Any thread.
using CombineFunction = void (*)(void* result, const void* left, const void* right, size_t count);

// One operation on one type; all null where the pair has no meaning. A fold is start, accumulate
// ..., finish. An accumulator belongs to one count and table; its elements are the wire type's, or
// float32 for half types, in an order of its own; it is as long as `count` elements, rounded up to
// two vectors of kVectorBytesMax.
struct ReduceKernel {
  CombineFunction combine = nullptr;     // wire, wire -> wire
  CombineFunction start = nullptr;       // wire, wire -> accumulator
  CombineFunction accumulate = nullptr;  // accumulator, wire -> accumulator
  CombineFunction finish = nullptr;      // accumulator, wire -> wire, rounded here and only here
};

// data[i] = data[i] / divisor. Pointers, register and thread as above; divisor is positive.
using DivideFunction = void (*)(void* data, size_t count, int64_t divisor);

// By ReduceOp, with room for more operations; Avg adds.
using ReduceColumns = std::array<ReduceKernel, 16>;

struct ReduceRow {
  DataType dtype;
  ReduceColumns kernels;
  DivideFunction divide;  // null: the type has no Avg
};

struct CpuReduceTable {
  int64_t target = 0;                  // Highway's bit for the instruction set
  std::vector<const ReduceRow*> rows;  // by DataType; null for types that are only moved
};

// The best table for this machine; its rows live for ever. The first call asks the processor.
CpuReduceTable cpu_reduce_table();

// The rows of one family in this machine's best instruction set, and that set.
struct ReduceRows {
  int64_t target;
  std::span<const ReduceRow> rows;
};
ReduceRows cpu_reduce_floats();
ReduceRows cpu_reduce_halves();
ReduceRows cpu_reduce_integers();

}  // namespace mccl
