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
};

// Element types that a call may name. Rows: src/base/dtype.cc. The last two are moved (all_gather,
// broadcast) but not reduced.
enum class DataType : uint8_t { Float32, BFloat16, Int64, Int32, UInt8 };

// Reduction operations. Avg is a sum followed by one true division on each rank (law L6).
enum class ReduceOp : uint8_t { Sum, Avg, Min, Max };

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
