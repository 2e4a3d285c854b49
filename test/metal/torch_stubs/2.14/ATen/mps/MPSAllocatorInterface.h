// Stands for torch 2.14's <ATen/mps/MPSAllocatorInterface.h>: what tells where a tensor lies.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <utility>

namespace at::mps {

class IMPSAllocator : public c10::DeviceAllocator {
 public:
  virtual bool isSharedBuffer(const void* ptr) const = 0;
  virtual std::pair<const void*, uint32_t> getSharedBufferPtr(const void* ptr) const = 0;
};

IMPSAllocator* getIMPSAllocator();

}  // namespace at::mps
