#include "base/dtype.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace mccl {
namespace {

constexpr std::array kDataTypes = {
    DataTypeRow{DataType::Float64, "float64", 8, TypeFamily::Floating},
    DataTypeRow{DataType::Float32, "float32", 4, TypeFamily::Floating},
    DataTypeRow{DataType::Float16, "float16", 2, TypeFamily::Floating},
    DataTypeRow{DataType::BFloat16, "bfloat16", 2, TypeFamily::Floating},
    DataTypeRow{DataType::Int64, "int64", 8, TypeFamily::Integer},
    DataTypeRow{DataType::Int32, "int32", 4, TypeFamily::Integer},
    DataTypeRow{DataType::Int16, "int16", 2, TypeFamily::Integer},
    DataTypeRow{DataType::Int8, "int8", 1, TypeFamily::Integer},
    DataTypeRow{DataType::UInt64, "uint64", 8, TypeFamily::Integer},
    DataTypeRow{DataType::UInt32, "uint32", 4, TypeFamily::Integer},
    DataTypeRow{DataType::UInt16, "uint16", 2, TypeFamily::Integer},
    DataTypeRow{DataType::UInt8, "uint8", 1, TypeFamily::Integer},
    DataTypeRow{DataType::Bool, "bool", 1, TypeFamily::Boolean},
    DataTypeRow{DataType::Complex64, "complex64", 8, TypeFamily::Complex},
    DataTypeRow{DataType::Complex128, "complex128", 16, TypeFamily::Complex},
    DataTypeRow{DataType::Float8E4M3FN, "float8_e4m3fn", 1, TypeFamily::Float8},
    DataTypeRow{DataType::Float8E5M2, "float8_e5m2", 1, TypeFamily::Float8},
    DataTypeRow{DataType::Float8E4M3FNUZ, "float8_e4m3fnuz", 1, TypeFamily::Float8},
    DataTypeRow{DataType::Float8E5M2FNUZ, "float8_e5m2fnuz", 1, TypeFamily::Float8},
};

constexpr std::array kCollectives = {
    Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::ReduceScatter,
    Collective::Reduce,    Collective::Gather,    Collective::Scatter,   Collective::AllToAll};
constexpr std::array kReduceOps = {ReduceOp::Sum,   ReduceOp::Avg,   ReduceOp::Product,
                                   ReduceOp::Min,   ReduceOp::Max,   ReduceOp::BitAnd,
                                   ReduceOp::BitOr, ReduceOp::BitXor};

bool is_bit_operation(ReduceOp op) {
  return op == ReduceOp::BitAnd || op == ReduceOp::BitOr || op == ReduceOp::BitXor;
}

bool is_moved_only(const DataTypeRow& row) {
  return row.family == TypeFamily::Complex || row.family == TypeFamily::Float8;
}

template <typename T>
std::optional<T> find_by_name(std::span<const T> all, std::string_view name,
                              std::string_view (*spelling)(T)) {
  for (const T& one : all)
    if (spelling(one) == name) return one;
  return std::nullopt;
}

}  // namespace

std::span<const DataTypeRow> data_types() {
  const auto end = std::find_if(kDataTypes.begin(), kDataTypes.end(), &is_moved_only);
  return {kDataTypes.begin(), end};
}
std::span<const DataTypeRow> all_data_types() {
  return kDataTypes;
}
std::span<const Collective> all_collectives() {
  return kCollectives;
}
std::span<const ReduceOp> all_reduce_ops() {
  return kReduceOps;
}

std::string_view collective_name(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return "all_reduce";
    case Collective::AllGather:
      return "all_gather";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::ReduceScatter:
      return "reduce_scatter";
    case Collective::Reduce:
      return "reduce";
    case Collective::Gather:
      return "gather";
    case Collective::Scatter:
      return "scatter";
    case Collective::AllToAll:
      return "all_to_all";
    case Collective::Custom:
      return "custom";
  }
  MCCL_CHECK(false && "a collective outside the enum");
  return {};
}

std::string_view reduce_op_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
      return "sum";
    case ReduceOp::Avg:
      return "avg";
    case ReduceOp::Product:
      return "product";
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
    case ReduceOp::BitAnd:
      return "bit_and";
    case ReduceOp::BitOr:
      return "bit_or";
    case ReduceOp::BitXor:
      return "bit_xor";
  }
  MCCL_CHECK(false && "a reduce op outside the enum");
  return {};
}

std::string_view dtype_name(DataType dtype) {
  return kDataTypes[static_cast<size_t>(dtype)].name;
}
size_t dtype_bytes(DataType dtype) {
  return kDataTypes[static_cast<size_t>(dtype)].bytes;
}

std::optional<Collective> find_collective(std::string_view name) {
  return find_by_name<Collective>(kCollectives, name, &collective_name);
}
std::optional<ReduceOp> find_reduce_op(std::string_view name) {
  return find_by_name<ReduceOp>(kReduceOps, name, &reduce_op_name);
}
std::optional<DataType> find_dtype(std::string_view name) {
  for (const DataTypeRow& row : kDataTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

bool is_reduction_defined(DataType dtype, ReduceOp op) {
  if (static_cast<size_t>(dtype) >= kDataTypes.size()) return false;
  if (static_cast<size_t>(op) >= kReduceOps.size()) return false;
  switch (kDataTypes[static_cast<size_t>(dtype)].family) {
    case TypeFamily::Floating:
      return !is_bit_operation(op);
    case TypeFamily::Integer:
      return true;
    case TypeFamily::Boolean:
      return op != ReduceOp::Avg;
    case TypeFamily::Complex:
    case TypeFamily::Float8:
      return false;
  }
  return false;
}

std::string describe_undefined_reduction(DataType dtype, ReduceOp op) {
  const TypeFamily family = kDataTypes[static_cast<size_t>(dtype)].family;
  std::string text = std::string(reduce_op_name(op)) + " of " + std::string(dtype_name(dtype)) +
                     " is not supported; ";
  if (is_bit_operation(op) && family != TypeFamily::Boolean)
    return text + "bit operations need an integer or bool type";
  if (family == TypeFamily::Boolean) return text + "use sum of int32";
  if (family == TypeFamily::Float8) return text + "reduce in float16 or bfloat16";
  if (op == ReduceOp::Min || op == ReduceOp::Max) return text + "complex numbers have no order";
  if (op == ReduceOp::Product)
    return text + "all_gather the factors and multiply them on each rank";
  return text + "view it as twice as many " +
         (dtype == DataType::Complex64 ? "float32" : "float64");
}

}  // namespace mccl
