// The data-type table: one row per type. Kernels know types (src/device); everything else moves
// bytes and asks here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mccl/types.h"

namespace mccl {

// What an operation means for a type: see is_reduction_defined().
enum class TypeFamily : uint8_t { Floating, Integer, Boolean, Complex, Float8 };

struct DataTypeRow {
  DataType dtype;
  std::string_view name;
  size_t bytes;
  TypeFamily family;
};

// The types that can be reduced, in enum order.
std::span<const DataTypeRow> data_types();
// Those, and after them the types that can only be moved.
std::span<const DataTypeRow> all_data_types();

// All collectives and operations, in enum order; tests and tables enumerate them.
// Those whose meaning is fixed: all but Custom.
std::span<const Collective> all_collectives();
std::span<const ReduceOp> all_reduce_ops();

// Whether the pair has a meaning; every device serves exactly these. Floating types have no bit
// operations; Boolean has no Avg (Sum and Max are "or", Product and Min are "and"); complex numbers
// and float8 are only moved. False outside the enums.
bool is_reduction_defined(DataType dtype, ReduceOp op);

// The refusal of any other pair of the enums, with the nearest alternative: "bit_and of float32 is
// not supported; bit operations need an integer or bool type".
std::string describe_undefined_reduction(DataType dtype, ReduceOp op);

}  // namespace mccl
