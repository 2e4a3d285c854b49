// The vocabulary of a call: what is computed, on which elements, with which operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mccl {

// What is computed; how is an algorithm's business. Blocks, roots and aliases: src/ir/collective.h.
enum class Collective : uint8_t {
  AllReduce,
  AllGather,
  Broadcast,
  ReduceScatter,
  Reduce,
  Gather,
  Scatter,
  AllToAll,
  Custom,  // what the program's own contract says (program.h)
};

// Element types that a call may name. Rows: src/base/dtype.cc. Those after Bool are moved, never
// reduced. A Bool is a byte: any bits but zero are true, a result is exactly 0 or 1.
enum class DataType : uint8_t {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Int64,
  Int32,
  Int16,
  Int8,
  UInt64,
  UInt32,
  UInt16,
  UInt8,
  Bool,
  Complex64,   // two float32
  Complex128,  // two float64
  Float8E4M3FN,
  Float8E5M2,
  Float8E4M3FNUZ,
  Float8E5M2FNUZ,
};

// Reduction operations. Avg is a sum followed by one true division on each rank (law L6). Which
// pairs with a type have a meaning: is_reduction_defined() in src/base/dtype.h.
enum class ReduceOp : uint8_t { Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor };

// Snake-case spellings ("all_reduce", "float32", "sum"): the only ones in messages, XML and docs.
std::string_view collective_name(Collective collective);
std::string_view dtype_name(DataType dtype);
std::string_view reduce_op_name(ReduceOp op);

// Inverse of the names above; empty when the name is unknown.
std::optional<Collective> find_collective(std::string_view name);
std::optional<DataType> find_dtype(std::string_view name);
std::optional<ReduceOp> find_reduce_op(std::string_view name);

// Bytes of one element.
size_t dtype_bytes(DataType dtype);

}  // namespace mccl
