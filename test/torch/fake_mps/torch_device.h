// What torch has to know of the fake device before it has a single kernel: how memory is allocated,
// which device and stream are current, what torch.mps asks for.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

namespace mccl::fake_mps {

constexpr c10::DeviceType kDeviceType = c10::DeviceType::MPS;

inline c10::Device torch_device() {
  return {kDeviceType, 0};
}

// Of device memory, which the CPU can address: a data pointer of a tensor is a host address.
c10::Allocator* device_allocator();

// Makes the device known to torch: torch.backends.mps.is_available() is true from then on, unless
// somebody has asked before. Once per process, after start_fake_device().
void register_device();

}  // namespace mccl::fake_mps
