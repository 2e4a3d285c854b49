// The devices that the suite runs on: one case per implementation. The CPU device is a case per
// instruction set of this machine, so every law is checked on each of them.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "device/cpu_device.h"
#include "mccl/device.h"

namespace mccl::conformance {

struct DeviceCase {
  std::string name;
  std::function<std::unique_ptr<Device>()> make;

  friend void PrintTo(const DeviceCase& device_case, std::ostream* output) {
    *output << device_case.name;
  }
};

// Restores Highway's own choice when it ends.
class ForcedTarget {
 public:
  explicit ForcedTarget(int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~ForcedTarget() { hwy::SetSupportedTargetsForTest(0); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

inline std::unique_ptr<Device> make_cpu_device(int64_t target) {
  const ForcedTarget forced(target);
  EXPECT_EQ(cpu_reduce_table().target, target);
  return std::make_unique<CpuDevice>();
}

inline std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases;
  for (int64_t rest = hwy::SupportedTargets() | HWY_EMU128; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    const ForcedTarget forced(target);
    // The machine may serve sets that the library is not compiled for.
    if (cpu_reduce_table().target != target) continue;
    cases.push_back({std::string("Cpu") + hwy::TargetName(target),
                     [target] { return make_cpu_device(target); }});
  }
  return cases;
}

inline std::string device_case_name(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.name;
}

// Elements are bit patterns as long as the type, or its integers.
class DeviceSuite : public testing::TestWithParam<DeviceCase> {
 protected:
  DeviceSuite() : device_(GetParam().make()) {}

  template <class Bits>
  std::vector<Bits> reduced(DataType dtype, ReduceOp op, const std::vector<Bits>& left,
                            const std::vector<Bits>& right) const {
    EXPECT_EQ(left.size(), right.size());
    std::vector<Bits> result(left.size());
    device_->reduce(dtype, op, result.data(), left.data(), right.data(), left.size());
    return result;
  }

  template <class Bits>
  std::vector<Bits> folded(DataType dtype, ReduceOp op,
                           const std::vector<std::vector<Bits>>& sources) const {
    std::vector<const void*> pointers;
    for (const auto& source : sources) pointers.push_back(source.data());
    std::vector<Bits> result(sources[0].size());
    void* const destination = result.data();
    device_->fold(dtype, op, {&destination, 1}, pointers, result.size());
    return result;
  }

  template <class Bits>
  std::vector<Bits> divided(DataType dtype, std::vector<Bits> data, int64_t divisor) const {
    device_->divide(dtype, data.data(), data.size(), divisor);
    return data;
  }

  std::unique_ptr<Device> device_;
};

}  // namespace mccl::conformance
