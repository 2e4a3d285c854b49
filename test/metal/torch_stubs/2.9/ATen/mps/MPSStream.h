// Stands for torch 2.9's <ATen/mps/MPSStream.h>: the public members that a hand-off can lean on.
// get_command_buffer() of torch/mps.h does not end the open encoder yet.
#pragma once

#include <ATen/core/Tensor.h>
#import <Metal/Metal.h>
#import <MetalPerformanceShaders/MetalPerformanceShaders.h>
#include <c10/core/Stream.h>

typedef MPSCommandBuffer* MPSCommandBuffer_t;
typedef id<MTLCommandQueue> MTLCommandQueue_t;
typedef id<MTLComputeCommandEncoder> MTLComputeCommandEncoder_t;
typedef id<MTLDevice> MTLDevice_t;

namespace at::mps {

enum class SyncType {
  NONE,
  COMMIT,
  COMMIT_AND_WAIT,
  COMMIT_AND_CONTINUE,
  COMMIT_ADAPTIVE,
};

class TORCH_API MPSStream {
 public:
  MTLCommandQueue_t commandQueue() const;
  dispatch_queue_t queue() const;
  MPSCommandBuffer_t commandBuffer();
  MTLComputeCommandEncoder_t commandEncoder();
  void endKernelCoalescing();
  void synchronize(SyncType syncType);
  MTLDevice_t device() const;
  Stream unwrap() const;
};

TORCH_API MPSStream* getCurrentMPSStream();
TORCH_API MPSStream* getDefaultMPSStream();

}  // namespace at::mps
