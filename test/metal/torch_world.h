// One GPU, one stream of torch's on it, and the plug-in's mps device: what the tests of
// metal_device.mm start from. For Objective-C++ files.
#pragma once

#import "metal/fake_metal.h"
#import "metal/fake_torch.h"

#include <memory>

#include "metal_device.h"

namespace mccl::fake_metal {

class TorchWorld {
 public:
  TorchWorld() {
    set_current_stream(torch_stream_);
    set_shared_buffers([](const void*) { return nullptr; });
  }
  ~TorchWorld() { set_current_stream(nullptr); }
  TorchWorld(const TorchWorld&) = delete;
  TorchWorld& operator=(const TorchWorld&) = delete;

  Gpu& gpu() { return gpu_; }
  Stream& stream() { return stream_; }
  id<MTLDevice> metal_device() { return metal_device_; }
  TensorDevice& device() { return *device_; }
  id<MTLBuffer> make_buffer(size_t bytes, MTLResourceOptions storage) {
    return [metal_device_ newBufferWithLength:bytes options:storage];
  }

 private:
  Gpu gpu_;
  const id<MTLDevice> metal_device_ = make_device(gpu_);
  const size_t queue_index_ = gpu_.add_queue();
  Stream stream_{[this] { return gpu_.make_sink(queue_index_); }, metal_device_, gpu_.violations()};
  at::mps::MPSStream* const torch_stream_ = make_torch_stream(stream_);
  const std::shared_ptr<TensorDevice> device_ = make_metal_device();
};

}  // namespace mccl::fake_metal
