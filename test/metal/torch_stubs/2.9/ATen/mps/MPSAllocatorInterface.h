// Stands for torch 2.9's <ATen/mps/MPSAllocatorInterface.h>: what tells where a tensor lies.
#pragma once

#include <c10/core/Allocator.h>

#include <cstdint>
#include <utility>

namespace at::mps {

class IMPSAllocator : public c10::Allocator {
 public:
  virtual bool isSharedBuffer(const void* ptr) const = 0;
  virtual std::pair<const void*, uint32_t> getSharedBufferPtr(const void* ptr) const = 0;
};

IMPSAllocator* getIMPSAllocator(bool sharedAllocator = false);

}  // namespace at::mps
