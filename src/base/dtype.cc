#include "base/dtype.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace mccl {
namespace {

constexpr std::array kDataTypes = {
    DataTypeRow{DataType::Float32, "float32", 4, true, true},
    DataTypeRow{DataType::BFloat16, "bfloat16", 2, true, true},
    DataTypeRow{DataType::Int64, "int64", 8, true, false},
    DataTypeRow{DataType::Int32, "int32", 4, false, false},
    DataTypeRow{DataType::UInt8, "uint8", 1, false, false},
};

constexpr std::array kCollectives = {
    Collective::AllReduce, Collective::AllGather, Collective::Broadcast, Collective::ReduceScatter,
    Collective::Reduce,    Collective::Gather,    Collective::Scatter,   Collective::AllToAll};
constexpr std::array kReduceOps = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Min, ReduceOp::Max};

template <typename T>
std::optional<T> find_by_name(std::span<const T> all, std::string_view name,
                              std::string_view (*spelling)(T)) {
  for (const T& one : all)
    if (spelling(one) == name) return one;
  return std::nullopt;
}

}  // namespace

std::span<const DataTypeRow> data_types() {
  const auto is_moved_only = [](const DataTypeRow& row) { return !row.is_reducible; };
  const auto end = std::find_if(kDataTypes.begin(), kDataTypes.end(), is_moved_only);
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
    case ReduceOp::Min:
      return "min";
    case ReduceOp::Max:
      return "max";
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

}  // namespace mccl
