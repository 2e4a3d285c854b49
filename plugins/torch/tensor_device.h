// What the plug-in needs to know of a device whose tensors it takes. The CPU needs none of it.
// torch's own devices are found when the plug-in is loaded (metal_device.mm on a Mac); others, and
// the simulated one of the tests, are registered from Python through a capsule (bindings.cc).
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceType.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "mccl/device.h"

namespace mccl {

// A tensor whose bytes the CPU does not reach, and what the engine does with them.
struct StagedTensor {
  at::Tensor tensor;
  bool is_read = true;
  bool is_written = true;  // as a whole, unless it is read too
};

// One call's copies of such tensors in memory that the CPU reaches.
struct StagedCall {
  // One per tensor, laid out as they are from the first element to the last; as long as hand_off is
  // held.
  std::vector<void*> addresses;
  // Of the whole call, for one ticket: fills the copies before await_producer() is true, copies
  // back behind raise_consumer().
  std::shared_ptr<HandOff> hand_off;
  // Kernels behind wait_consumer() find the results in the tensors. Whoever tells a caller that the
  // call is done without that, as a Future does, asks here first, after raise_consumer(): whether
  // the results are there. If not, `wake` is called once when they are, on any thread.
  std::function<bool(std::function<void()> wake)> await_returned;
};

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

  // For a call some of whose tensors have no host_address(): copies of those, on the current
  // stream. The call's other tensors are ordered by the same hand-off. The caller's thread; does
  // not wait.
  virtual Result<StagedCall> make_staged_call(std::span<const StagedTensor> /*tensors*/) {
    return Status(StatusCode::Unsupported, "this device has no copies of private storage");
  }

  // After wait_consumer(): kernels of the current stream use the tensor from here on. Devices whose
  // allocators know one stream per tensor are told of the other. The caller's thread.
  virtual void note_consumer(const at::Tensor&) {}
};

// The devices that are known, by type: process-wide, since torch's own devices are. Any thread.
void register_tensor_device(c10::DeviceType type, std::shared_ptr<TensorDevice> device);
// Null when there is none.
std::shared_ptr<TensorDevice> find_tensor_device(c10::DeviceType type);

}  // namespace mccl
