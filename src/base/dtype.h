// The data-type table: one row per type. Kernels know types (src/device); everything else moves
// bytes and asks here.
#pragma once

#include <span>
#include <string_view>

#include "mccl/types.h"

namespace mccl {

struct DataTypeRow {
  DataType dtype;
  std::string_view name;
  size_t bytes;
  bool is_reducible;  // kernels exist; else the type is moved only
  bool is_floating;   // a reduction rounds: programs with different trees differ in bits (law L5)
};

// The types that can be reduced, in enum order.
std::span<const DataTypeRow> data_types();
// Those, and after them the types that can only be moved.
std::span<const DataTypeRow> all_data_types();

// All collectives and operations, in enum order; tests and tables enumerate them.
std::span<const Collective> all_collectives();
std::span<const ReduceOp> all_reduce_ops();

}  // namespace mccl
