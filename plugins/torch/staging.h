// The memory of one call as the communicator wants it: within the CPU's reach, contiguous,
// row-major, not lazily conjugated or negated. The only place that knows about layouts and devices.
// What is not so gets a stand-in, which the communicator fills when it is the call's turn and
// empties when the call is over.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "mccl/communicator.h"
#include "reduction.h"
#include "tensor_device.h"
#include "torch_work.h"

namespace mccl {

class Staging {
 public:
  // `call` is named in refusals. Every tensor of the call is of type `type`, on one device, the CPU
  // or one that is registered, strided: else ValueError or NotImplementedError. Memory that CPU and
  // device share gets a stand-in, too, unless `is_unified_in_place`.
  Staging(const char* call, at::ScalarType type, Elements elements, bool is_unified_in_place)
      : call_(call), type_(type), elements_(elements), is_unified_in_place_(is_unified_in_place) {}

  // Memory that is read: the tensor's own, or a stand-in.
  InputBlock input(const at::Tensor& tensor);
  // As input, every element multiplied by the reduction's factor if it has one.
  InputBlock input(const at::Tensor& tensor, const Reduction& reduction);
  // Memory that is written: the tensor's own, or a stand-in. ValueError for an expanded tensor.
  OutputBlock output(const at::Tensor& tensor);
  // The refusals of output(), without one.
  void check_writable(const at::Tensor& tensor);
  // Read and written, one block for both unless the input is to be scaled.
  std::pair<InputBlock, OutputBlock> in_place(const at::Tensor& tensor, const Reduction& reduction);

  // Profiles show the tensor, which is an output so far, as what the call was made with.
  void show(const at::Tensor& tensor) { memory_.inputs.push_back(tensor); }

  // Copies inputs that share memory with an output, but for the one alias that the communicator
  // knows: inputs[own_input] at the very place of outputs[own_output]. -1: none.
  void separate(std::vector<InputBlock>& inputs, const std::vector<OutputBlock>& outputs,
                int own_input, int own_output);

  DataType dtype() const { return elements_.dtype; }
  // How the call is ordered with the device of its tensors; null: they are the CPU's.
  std::shared_ptr<HandOff> take_hand_off();
  // Null when no stand-in was needed. Before take_memory().
  std::shared_ptr<const StandIn> take_stand_in();
  // What the call has to keep alive.
  CallMemory take_memory() { return std::move(memory_); }
  // Of the stand-ins.
  uint64_t staged_bytes() const { return staged_bytes_; }

 private:
  struct Seen {
    at::Tensor tensor;  // of a device
    at::Tensor seen;    // see() of it
    bool is_read;
    bool is_written;
  };

  void check(const at::Tensor& tensor);
  // As the CPU sees it: the tensor itself, or a tensor of the CPU over the same memory, or over the
  // device's copy of it, that does not own it. The same for the same tensor and use; a copy that is
  // not filled, or not copied back, serves no other.
  at::Tensor see(const at::Tensor& tensor, bool is_read, bool is_written);
  void check_place(const at::Tensor& tensor);
  // Whether the communicator may work in the memory of `seen`.
  bool is_usable(const at::Tensor& seen) const;
  at::Tensor make_room(const at::Tensor& tensor);
  int64_t count(const at::Tensor& tensor) const { return tensor.numel() * elements_.parts; }

  const char* call_;
  at::ScalarType type_;
  Elements elements_;
  bool is_unified_in_place_;
  std::optional<c10::Device> place_;  // of the call's tensors, by the first one
  std::vector<Seen> seen_;
  std::vector<std::shared_ptr<HandOff>> staged_;  // of those in private storage
  CallMemory memory_;
  StandIn ranges_;  // its ranges; the copies are below
  StagedCopies copies_;
  uint64_t staged_bytes_ = 0;
};

}  // namespace mccl
