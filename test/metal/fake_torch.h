// The symbols of at::mps that torch's Linux build declares and does not define, over the stand-ins
// for Metal's objects: what plugins/torch/metal_device.mm needs of torch. Process-wide, as torch's
// own. For Objective-C++ files without ARC.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/mps/MPSStream.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "metal/fake_metal.h"

namespace mccl::fake_metal {

// torch's face of `stream`, which lives as long. It must be named current before it is used.
at::mps::MPSStream* make_torch_stream(Stream& stream);

// What at::mps::getCurrentMPSStream() returns from now on, on every thread.
void set_current_stream(at::mps::MPSStream* stream);

// How the allocator answers: the CPU's address of a buffer in one of its shared pools, else null.
void set_shared_buffers(std::function<const void*(const void*)> find_bytes);

// The next use of a stream's command buffer throws a c10::Error with these words.
void fail_next_encoding(const char* words);

struct TensorLayout {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
};

// A tensor of int64 on mps whose storage is the buffer, or what the caller says is one.
at::Tensor make_torch_tensor(void* buffer, size_t storage_bytes, const TensorLayout& layout);

}  // namespace mccl::fake_metal
