// What the plug-in needs to know of a device whose tensors it takes. The CPU needs none of it.
// torch's own devices are found when the plug-in is loaded (metal_device.mm on a Mac); others, and
// the simulated one of the tests, are registered from Python through a capsule (bindings.cc).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <memory>

#include "mccl/device.h"

namespace mccl {

class TensorDevice {
 public:
  virtual ~TensorDevice() = default;

  // Where the CPU finds the first byte of the tensor's elements (its storage offset included), or
  // null for private storage. The tensor is strided, defined and of this device. The caller's
  // thread.
  virtual void* host_address(const at::Tensor& tensor) = 0;

  // The stream on which kernels of the calling thread are encoded now. The same object for the same
  // stream, as long as anybody holds it.
  virtual std::shared_ptr<HandOff> current_stream() = 0;
};

// The devices that are known, by type: process-wide, since torch's own devices are. Any thread.
void register_tensor_device(c10::DeviceType type, std::shared_ptr<TensorDevice> device);
// Null when there is none.
std::shared_ptr<TensorDevice> find_tensor_device(c10::DeviceType type);

}  // namespace mccl
