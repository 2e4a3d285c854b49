// The memory of one call as the communicator wants it: contiguous, row-major, not lazily
// conjugated or negated. The only place that knows about layouts. What is not so gets a stand-in,
// which the communicator fills when it is the call's turn and empties when the call is over.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "mccl/communicator.h"
#include "reduction.h"
#include "torch_work.h"

namespace mccl {

class Staging {
 public:
  // `call` is named in refusals. Every tensor of the call is of type `type`, on the CPU, strided:
  // else ValueError or NotImplementedError.
  Staging(const char* call, at::ScalarType type, Elements elements)
      : call_(call), type_(type), elements_(elements) {}

  // Memory that is read: the tensor's own, or a stand-in.
  InputBlock input(const at::Tensor& tensor);
  // As input, every element multiplied by the reduction's factor if it has one.
  InputBlock input(const at::Tensor& tensor, const Reduction& reduction);
  // Memory that is written: the tensor's own, or a stand-in. ValueError for an expanded tensor.
  OutputBlock output(const at::Tensor& tensor);
  // The refusals of output(), without one.
  void check_writable(const at::Tensor& tensor) const;
  // Read and written, one block for both unless the input is to be scaled.
  std::pair<InputBlock, OutputBlock> in_place(const at::Tensor& tensor, const Reduction& reduction);

  // Profiles show the tensor, which is an output so far, as what the call was made with.
  void show(const at::Tensor& tensor) { memory_.inputs.push_back(tensor); }

  // Copies inputs that share memory with an output, but for the one alias that the communicator
  // knows: inputs[own_input] at the very place of outputs[own_output]. -1: none.
  void separate(std::vector<InputBlock>& inputs, const std::vector<OutputBlock>& outputs,
                int own_input, int own_output);

  DataType dtype() const { return elements_.dtype; }
  // Null when no stand-in was needed. Before take_memory().
  std::shared_ptr<const StandIn> take_stand_in();
  // What the call has to keep alive.
  CallMemory take_memory() { return std::move(memory_); }
  // Of the stand-ins.
  uint64_t staged_bytes() const { return staged_bytes_; }

 private:
  void check(const at::Tensor& tensor) const;
  at::Tensor make_room(const at::Tensor& tensor);
  int64_t count(const at::Tensor& tensor) const { return tensor.numel() * elements_.parts; }

  const char* call_;
  at::ScalarType type_;
  Elements elements_;
  CallMemory memory_;
  StandIn ranges_;  // its ranges; the copies are below
  StagedCopies copies_;
  uint64_t staged_bytes_ = 0;
};

}  // namespace mccl
