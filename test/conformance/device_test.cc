// The promises of mccl/device.h about memory, counts and the caller's processor state. The bits are
// in device_arithmetic_test.cc.
#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "base/dtype.h"
#include "base/prng.h"
#include "device_suite.h"

namespace mccl::conformance {
namespace {

class DeviceContract : public DeviceSuite {
 protected:
  // Random bits, except that elements of a floating type are kept finite by the caller's choice of
  // op.
  static std::vector<uint8_t> random_bytes(uint64_t seed, size_t bytes) {
    Prng prng(seed);
    std::vector<uint8_t> values(bytes);
    for (uint8_t& value : values) value = static_cast<uint8_t>(prng.next());
    return values;
  }
};
INSTANTIATE_TEST_SUITE_P(Every, DeviceContract, testing::ValuesIn(device_cases()),
                         device_case_name);

TEST(DeviceCases, IncludeThePortableTargetAndTheBestOne) {
  const auto cases = device_cases();
  ASSERT_GE(cases.size(), 2u);
  EXPECT_EQ(cases.back().name, "CpuEMU128");
  EXPECT_EQ(cases.front().name, std::string("Cpu") + hwy::TargetName(cpu_reduce_table().target));
}

TEST_P(DeviceContract, ServesExactlyThePairsThatHaveAMeaning) {
  for (const DataTypeRow& row : all_data_types())
    for (const ReduceOp op : all_reduce_ops())
      EXPECT_EQ(device_->supports(row.dtype, op), is_reduction_defined(row.dtype, op))
          << reduce_op_name(op) << " of " << row.name;
}

TEST_P(DeviceContract, ReducesAnyCountAtAnyAlignmentAndTouchesNothingElse) {
  constexpr size_t kCountMax = 150;
  constexpr size_t kBytes = 8 * kCountMax + 64;
  const auto left = random_bytes(1, kBytes);
  const auto right = random_bytes(2, kBytes);
  for (const DataTypeRow& row : data_types()) {
    std::vector<uint8_t> whole(kBytes);
    device_->reduce(row.dtype, ReduceOp::Sum, whole.data(), left.data(), right.data(), kCountMax);
    for (size_t count = 0; count <= kCountMax; ++count) {
      const size_t offset = 1 + count % 13;
      const size_t bytes = count * row.bytes;
      std::vector<uint8_t> moved_left(kBytes);
      std::vector<uint8_t> moved_right(kBytes);
      std::memcpy(moved_left.data() + offset, left.data(), bytes);
      std::memcpy(moved_right.data() + offset + 2, right.data(), bytes);
      std::vector<uint8_t> result(kBytes, 0xa5);
      std::vector<uint8_t> expected(kBytes, 0xa5);
      std::memcpy(expected.data() + offset + 4, whole.data(), bytes);
      device_->reduce(row.dtype, ReduceOp::Sum, result.data() + offset + 4,
                      moved_left.data() + offset, moved_right.data() + offset + 2, count);
      ASSERT_EQ(result, expected) << row.name << ", count " << count;
    }
  }
}

TEST_P(DeviceContract, ReducesIntoEitherOperand) {
  constexpr size_t kCount = 133;
  for (const DataTypeRow& row : data_types())
    for (const ReduceOp op : all_reduce_ops()) {
      if (!device_->supports(row.dtype, op)) continue;
      auto left = random_bytes(3, kCount * row.bytes);
      auto right = random_bytes(4, kCount * row.bytes);
      std::vector<uint8_t> expected(kCount * row.bytes);
      device_->reduce(row.dtype, op, expected.data(), left.data(), right.data(), kCount);
      auto into_left = left;
      device_->reduce(row.dtype, op, into_left.data(), into_left.data(), right.data(), kCount);
      EXPECT_EQ(into_left, expected);
      device_->reduce(row.dtype, op, right.data(), left.data(), right.data(), kCount);
      EXPECT_EQ(right, expected);
    }
}

TEST_P(DeviceContract, FoldsAnyCountAtAnyAlignmentAndTouchesNothingElse) {
  constexpr size_t kSourceCount = 3;
  for (const DataTypeRow& row : data_types())
    for (const size_t count : {0u, 1u, 2u, 7u, 31u, 32u, 33u, 150u, 5000u}) {
      const size_t bytes = count * row.bytes;
      std::vector<std::vector<uint8_t>> sources;
      std::vector<const void*> pointers;
      for (size_t source_index = 0; source_index < kSourceCount; ++source_index) {
        sources.push_back(random_bytes(10 + source_index, bytes + source_index + 1));
        pointers.push_back(sources.back().data() + source_index + 1);
      }
      // One element at a time is the definition: nothing crosses from element to element.
      std::vector<uint8_t> expected(bytes + 8, 0xa5);
      for (size_t at = 0; at < bytes; at += row.bytes) {
        std::array<const void*, kSourceCount> elements;
        for (size_t source_index = 0; source_index < kSourceCount; ++source_index)
          elements[source_index] = static_cast<const uint8_t*>(pointers[source_index]) + at;
        void* const destination = expected.data() + 3 + at;
        device_->fold(row.dtype, ReduceOp::Sum, {&destination, 1}, elements, 1);
      }
      std::vector<uint8_t> result(bytes + 8, 0xa5);
      void* const destination = result.data() + 3;
      device_->fold(row.dtype, ReduceOp::Sum, {&destination, 1}, pointers, count);
      ASSERT_EQ(result, expected) << row.name << ", count " << count;
    }
}

TEST_P(DeviceContract, FoldsIntoSeveralDestinationsThatAreSources) {
  constexpr size_t kCount = 9001;
  for (const DataTypeRow& row : data_types())
    for (const size_t source_count : {1u, 2u, 3u, 6u}) {
      const size_t bytes = kCount * row.bytes;
      std::vector<std::vector<uint8_t>> sources;
      for (size_t source_index = 0; source_index < source_count; ++source_index)
        sources.push_back(random_bytes(20 + source_index, bytes));
      const auto expected = [&] {
        std::vector<const void*> pointers;
        for (const auto& source : sources) pointers.push_back(source.data());
        std::vector<uint8_t> result(bytes);
        void* const destination = result.data();
        device_->fold(row.dtype, ReduceOp::Max, {&destination, 1}, pointers, kCount);
        return result;
      }();
      // Every source is a destination, in the opposite order, and one more is not.
      std::vector<uint8_t> apart(bytes);
      std::vector<const void*> pointers;
      std::vector<void*> destinations = {apart.data()};
      for (auto& source : sources) {
        pointers.push_back(source.data());
        destinations.insert(destinations.begin(), source.data());
      }
      device_->fold(row.dtype, ReduceOp::Max, destinations, pointers, kCount);
      EXPECT_EQ(apart, expected);
      for (const auto& source : sources) EXPECT_EQ(source, expected);
    }
}

TEST_P(DeviceContract, AFoldIsAChainOfReducesWhereTheAccumulatorIsTheWireType) {
  constexpr size_t kCount = 3000;
  for (const DataType dtype : {DataType::Float64, DataType::Float32, DataType::Int64,
                               DataType::Int16, DataType::UInt8, DataType::Bool})
    for (const ReduceOp op : all_reduce_ops()) {
      if (!device_->supports(dtype, op)) continue;
      const size_t bytes = kCount * dtype_bytes(dtype);
      std::vector<std::vector<uint8_t>> sources;
      std::vector<const void*> pointers;
      for (uint64_t source_index = 0; source_index < 5; ++source_index)
        sources.push_back(random_bytes(30 + source_index, bytes));
      for (const auto& source : sources) pointers.push_back(source.data());
      auto chained = sources[0];
      for (size_t source_index = 1; source_index < sources.size(); ++source_index)
        device_->reduce(dtype, op, chained.data(), chained.data(), pointers[source_index], kCount);
      std::vector<uint8_t> result(bytes);
      void* const destination = result.data();
      device_->fold(dtype, op, {&destination, 1}, pointers, kCount);
      EXPECT_EQ(result, chained);
    }
}

TEST_P(DeviceContract, DividesAnyCountAtAnyAlignmentAndTouchesNothingElse) {
  for (const DataTypeRow& row : data_types())
    for (size_t count = 0; count <= 70; ++count) {
      if (!device_->supports(row.dtype, ReduceOp::Avg)) continue;
      const size_t bytes = count * row.bytes;
      const auto original = random_bytes(5, bytes + 8);
      auto result = original;
      auto expected = original;
      for (size_t at = 0; at < bytes; at += row.bytes)
        device_->divide(row.dtype, expected.data() + 3 + at, 1, 7);
      device_->divide(row.dtype, result.data() + 3, count, 7);
      ASSERT_EQ(result, expected) << row.name << ", count " << count;
    }
}

// The floating-point control register as the caller sees it.
uint64_t read_control() {
#if defined(__x86_64__)
  return _mm_getcsr();
#else
  uint64_t value = 0;
  asm volatile("mrs %0, fpcr" : "=r"(value));
  return value;
#endif
}

void write_control(uint64_t value) {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(value));
#else
  asm volatile("msr fpcr, %0" : : "r"(value));
#endif
}

// Sets a register for the calls of a test; what those leave is compared after it.
template <class Calls>
void expect_register_kept(uint64_t value, Calls calls) {
  const uint64_t original = read_control();
  write_control(value);
  calls();
  const uint64_t left_behind = read_control();
  write_control(original);
  EXPECT_EQ(left_behind, value);
}

// Calls every kernel on values that show flushed subnormals, and rounding other than to nearest.
void expect_default_arithmetic_under(const Device& device, uint64_t control) {
  const std::array<uint32_t, 3> left = {0x00000001, 0x00800000, 0x3f800000};
  const std::array<uint32_t, 3> right = {0x00000001, 0x80000001, 0x32800000};
  const std::array<uint16_t, 3> left_half = {0x0001, 0x0080, 0x3f80};
  const std::array<uint16_t, 3> right_half = {0x0001, 0x8001, 0x3080};
  std::array<uint32_t, 3> sum = {};
  std::array<uint32_t, 3> min = {};
  std::array<uint32_t, 3> fold = {};
  std::array<uint32_t, 3> quotient = {0x00000003, 0x00800000, 0x3f800000};
  // The same in float16: subnormals, one that comes from normal numbers, a rounded product.
  const std::array<uint16_t, 3> left_float16 = {0x0001, 0x0400, 0x3c01};
  const std::array<uint16_t, 3> right_float16 = {0x0001, 0x8001, 0x3c01};
  std::array<uint16_t, 3> sum_float16 = {};
  std::array<uint16_t, 3> product_float16 = {};
  const std::array<uint64_t, 2> left_double = {0x0000000000000001, 0x3ff0000000000000};
  const std::array<uint64_t, 2> right_double = {0x0000000000000001, 0x3c80000000000000};
  std::array<uint64_t, 2> sum_double = {};
  std::array<uint16_t, 3> sum_half = {};
  std::array<uint16_t, 3> quotient_half = {0x0003, 0x0080, 0x3f80};
  const std::array<const void*, 3> sources = {left.data(), right.data(), right.data()};
  void* const destination = fold.data();
  expect_register_kept(control, [&] {
    device.reduce(DataType::Float32, ReduceOp::Sum, sum.data(), left.data(), right.data(), 3);
    device.reduce(DataType::Float32, ReduceOp::Min, min.data(), left.data(), right.data(), 3);
    device.reduce(DataType::BFloat16, ReduceOp::Sum, sum_half.data(), left_half.data(),
                  right_half.data(), 3);
    device.reduce(DataType::Float16, ReduceOp::Sum, sum_float16.data(), left_float16.data(),
                  right_float16.data(), 3);
    device.reduce(DataType::Float16, ReduceOp::Product, product_float16.data(), left_float16.data(),
                  right_float16.data(), 3);
    device.reduce(DataType::Float64, ReduceOp::Sum, sum_double.data(), left_double.data(),
                  right_double.data(), 2);
    device.fold(DataType::Float32, ReduceOp::Sum, {&destination, 1}, sources, 3);
    device.divide(DataType::Float32, quotient.data(), 3, 3);
    device.divide(DataType::BFloat16, quotient_half.data(), 3, 3);
  });
  EXPECT_EQ(sum, (std::array<uint32_t, 3>{0x00000002, 0x007fffff, 0x3f800000}));
  EXPECT_EQ(min, (std::array<uint32_t, 3>{0x00000001, 0x80000001, 0x32800000}));
  EXPECT_EQ(fold, (std::array<uint32_t, 3>{0x00000003, 0x007ffffe, 0x3f800000}));
  EXPECT_EQ(quotient, (std::array<uint32_t, 3>{0x00000001, 0x002aaaab, 0x3eaaaaab}));
  EXPECT_EQ(sum_float16, (std::array<uint16_t, 3>{0x0002, 0x03ff, 0x4001}));
  EXPECT_EQ(product_float16, (std::array<uint16_t, 3>{0x0000, 0x8000, 0x3c02}));
  EXPECT_EQ(sum_double, (std::array<uint64_t, 2>{0x0000000000000002, 0x3ff0000000000000}));
  EXPECT_EQ(sum_half, (std::array<uint16_t, 3>{0x0002, 0x007f, 0x3f80}));
  EXPECT_EQ(quotient_half, (std::array<uint16_t, 3>{0x0001, 0x002b, 0x3eab}));
}

TEST_P(DeviceContract, KeepsSubnormalsWhenTheCallerFlushesThem) {
#if defined(__x86_64__)
  const uint64_t flushing = read_control() | 0x8040;  // flush to zero, denormals are zero
#else
  const uint64_t flushing = read_control() | (uint64_t{1} << 24);
#endif
  expect_default_arithmetic_under(*device_, flushing);
}

TEST_P(DeviceContract, RoundsToNearestWhateverTheCallerChose) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const uint64_t rounding = read_control();
    ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
    expect_default_arithmetic_under(*device_, rounding);
  }
}

}  // namespace
}  // namespace mccl::conformance
