// What the CPU device adds to test/conformance: its checks, and folds over more than one block.
#include "device/cpu_device.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace mccl {
namespace {

TEST(CpuDevice, FoldsEveryBlockOfALongInput) {
  // Blocks hold at most 2048 elements; the values name their positions.
  constexpr size_t kCount = 2 * 2048 + 1;
  std::vector<int64_t> units(kCount);
  std::vector<int64_t> thousands(kCount);
  std::vector<int64_t> millions(kCount);
  std::vector<int64_t> expected(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const auto value = static_cast<int64_t>(i);
    units[i] = value;
    thousands[i] = value * 1'000;
    millions[i] = value * 1'000'000;
    expected[i] = value * 1'001'001;
  }
  std::vector<int64_t> first(kCount);
  std::vector<int64_t> second(kCount);
  const std::array<const void*, 3> sources = {units.data(), thousands.data(), millions.data()};
  const std::array<void*, 2> destinations = {first.data(), second.data()};
  CpuDevice().fold(DataType::Int64, ReduceOp::Sum, destinations, sources, kCount);
  EXPECT_EQ(first, expected);
  EXPECT_EQ(second, expected);
}

TEST(CpuDevice, DoesNotSupportValuesOutsideTheEnums) {
  EXPECT_FALSE(CpuDevice().supports(static_cast<DataType>(200), ReduceOp::Sum));
  EXPECT_FALSE(CpuDevice().supports(DataType::Int64, static_cast<ReduceOp>(8)));
}

TEST(CpuDevice, AcceptsNoDestinationAndNullPointersForNoElements) {
  const int64_t value = 1;
  const std::array<const void*, 3> sources = {&value, &value, &value};
  CpuDevice().fold(DataType::Int64, ReduceOp::Sum, {}, sources, 1);
  CpuDevice().reduce(DataType::Int64, ReduceOp::Sum, nullptr, nullptr, nullptr, 0);
  CpuDevice().divide(DataType::Float32, nullptr, 0, 2);
}

TEST(CpuDeviceDeathTest, RefusesAFoldOfNothingAndADivisionByZero) {
  int64_t value = 1;
  void* const destination = &value;
  EXPECT_DEATH(CpuDevice().fold(DataType::Int64, ReduceOp::Sum, {&destination, 1}, {}, 1), "size");
  EXPECT_DEATH(CpuDevice().divide(DataType::Int64, &value, 1, 0), "divisor");
}

TEST(CpuDeviceDeathTest, RefusesPairsWithoutAMeaning) {
  float value = 1;
  EXPECT_DEATH(CpuDevice().reduce(DataType::Float32, ReduceOp::BitAnd, &value, &value, &value, 1),
               "kernel.combine");
  EXPECT_DEATH(CpuDevice().reduce(DataType::Complex64, ReduceOp::Sum, &value, &value, &value, 0),
               "rows");
  EXPECT_DEATH(CpuDevice().divide(DataType::Bool, &value, 1, 2), "kernel");
}

}  // namespace
}  // namespace mccl
