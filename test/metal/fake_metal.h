// Stand-ins for Metal's objects that run on Linux, so that src/device/metal_* and the plug-in's
// metal_device.mm are executed and not only compiled. For Objective-C++ files without ARC: objects
// are never freed.
#pragma once

#import <Metal/Metal.h>
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "metal/fake_gpu.h"

namespace mccl::fake_metal {

id<MTLDevice> make_device(Gpu& gpu);

// A command buffer whose commands go to `sink`. Metal's rules that it watches: no event is encoded
// while an encoder is open; nothing is encoded after the commit; no commit with an open encoder.
MPSCommandBuffer* make_command_buffer(std::unique_ptr<CommandSink> sink, Violations& violations);

// Where the GPU finds the buffer's bytes, which [buffer contents] does not tell of a private one.
std::byte* device_bytes(id<MTLBuffer> buffer);

// A framework's stream in the manner of torch's MPSStream: a serial queue that every call must be
// made on, an open command buffer, and an encoder that is left open from kernel to kernel.
class Stream {
 public:
  // What a kernel is encoded into has to be known only when it is.
  using SinkMaker = std::function<std::unique_ptr<CommandSink>()>;

  // Kernels that are encoded elsewhere are taken to be there after every commit.
  enum class Kernels : uint8_t { Here, Elsewhere };

  Stream(SinkMaker make_sink, id<MTLDevice> device, Violations& violations,
         Kernels kernels = Kernels::Here);

  id<MTLDevice> device() const { return device_; }
  dispatch_queue_t queue() const { return queue_; }

  // On the queue.
  MPSCommandBuffer* command_buffer();
  void end_kernel_coalescing();
  void commit();

  // Off the queue, as the framework's own operators do.
  void encode_kernel(std::function<void()> run);
  void commit_kernels();

 private:
  void check_queue(const char* what);
  void open_buffer();

  const SinkMaker make_sink_;
  const Kernels kernels_;
  const id<MTLDevice> device_;
  Violations& violations_;
  dispatch_queue_t queue_;
  MPSCommandBuffer* buffer_ = nil;
};

}  // namespace mccl::fake_metal
