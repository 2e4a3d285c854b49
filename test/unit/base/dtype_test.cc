#include "base/dtype.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace mccl {
namespace {

TEST(DataTypes, HaveTheirRowsInEnumOrderTheReducibleOnesFirst) {
  size_t index = 0;
  for (const DataTypeRow& row : all_data_types()) {
    EXPECT_EQ(static_cast<size_t>(row.dtype), index++) << row.name;
    EXPECT_EQ(dtype_name(row.dtype), row.name);
    EXPECT_EQ(dtype_bytes(row.dtype), row.bytes);
    EXPECT_EQ(find_dtype(row.name), row.dtype);
  }
  EXPECT_EQ(index, 19u);
  EXPECT_EQ(data_types().size(), 13u);
  EXPECT_EQ(data_types().data(), all_data_types().data());
}

TEST(DataTypes, HaveTheNamesAndSizesOfTheDocumentation) {
  std::string text;
  for (const DataTypeRow& row : all_data_types())
    text += std::string(row.name) + " " + std::to_string(row.bytes) + "\n";
  EXPECT_EQ(text,
            "float64 8\nfloat32 4\nfloat16 2\nbfloat16 2\nint64 8\nint32 4\nint16 2\nint8 1\n"
            "uint64 8\nuint32 4\nuint16 2\nuint8 1\nbool 1\ncomplex64 8\ncomplex128 16\n"
            "float8_e4m3fn 1\nfloat8_e5m2 1\nfloat8_e4m3fnuz 1\nfloat8_e5m2fnuz 1\n");
}

TEST(ReduceOps, HaveNamesThatCanBeFound) {
  std::vector<std::string> names;
  for (const ReduceOp op : all_reduce_ops()) {
    EXPECT_EQ(static_cast<size_t>(op), names.size());
    names.emplace_back(reduce_op_name(op));
    EXPECT_EQ(find_reduce_op(names.back()), op);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"sum", "avg", "product", "min", "max", "bit_and",
                                             "bit_or", "bit_xor"}));
}

TEST(Reductions, AreDefinedByTheFamilyOfTheType) {
  const auto count = [](DataType dtype) {
    const auto ops = all_reduce_ops();
    return std::count_if(ops.begin(), ops.end(),
                         [&](ReduceOp op) { return is_reduction_defined(dtype, op); });
  };
  EXPECT_EQ(count(DataType::Float16), 5);
  EXPECT_EQ(count(DataType::UInt8), 8);
  EXPECT_EQ(count(DataType::Bool), 7);
  EXPECT_EQ(count(DataType::Complex128), 0);
  EXPECT_EQ(count(DataType::Float8E5M2), 0);
  EXPECT_FALSE(is_reduction_defined(DataType::Float32, ReduceOp::BitAnd));
  EXPECT_FALSE(is_reduction_defined(DataType::Bool, ReduceOp::Avg));
  EXPECT_FALSE(is_reduction_defined(static_cast<DataType>(200), ReduceOp::Sum));
  EXPECT_FALSE(is_reduction_defined(DataType::Int64, static_cast<ReduceOp>(200)));
}

TEST(Reductions, AreRefusedWithTheNearestAlternative) {
  EXPECT_EQ(describe_undefined_reduction(DataType::Float32, ReduceOp::BitAnd),
            "bit_and of float32 is not supported; bit operations need an integer or bool type");
  EXPECT_EQ(describe_undefined_reduction(DataType::Bool, ReduceOp::Avg),
            "avg of bool is not supported; use sum of int32");
  EXPECT_EQ(describe_undefined_reduction(DataType::Complex64, ReduceOp::Max),
            "max of complex64 is not supported; complex numbers have no order");
  EXPECT_EQ(describe_undefined_reduction(DataType::Complex128, ReduceOp::Sum),
            "sum of complex128 is not supported; view it as twice as many float64");
  EXPECT_EQ(describe_undefined_reduction(DataType::Complex64, ReduceOp::Product),
            "product of complex64 is not supported; all_gather the factors and multiply them on "
            "each rank");
  EXPECT_EQ(describe_undefined_reduction(DataType::Float8E4M3FN, ReduceOp::Sum),
            "sum of float8_e4m3fn is not supported; reduce in float16 or bfloat16");
}

}  // namespace
}  // namespace mccl
