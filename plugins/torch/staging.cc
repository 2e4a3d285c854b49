#include "staging.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace mccl {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

void Staging::check(const at::Tensor& tensor) const {
  TORCH_CHECK_VALUE(tensor.defined(), "mccl: ", call_, " got an undefined tensor");
  if (!tensor.device().is_cpu())
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("mccl: ", call_, " of a tensor on ", tensor.device(),
                             " is not supported; supported is cpu"));
  if (tensor.layout() != at::kStrided)
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("mccl: ", call_, " of a ", tensor.layout(),
                             " tensor is not supported; supported are strided tensors, and sparse "
                             "COO tensors in all_reduce"));
  TORCH_CHECK_VALUE(tensor.scalar_type() == type_, "mccl: the tensors of ", call_,
                    " are of one dtype; one is ", type_, ", another ", tensor.scalar_type());
}

at::Tensor Staging::make_room(const at::Tensor& tensor) {
  at::Tensor room = at::empty(tensor.sizes(), at::TensorOptions().dtype(type_));
  staged_bytes_ += static_cast<uint64_t>(room.nbytes());
  memory_.others.push_back(room);
  return room;
}

InputBlock Staging::input(const at::Tensor& tensor) {
  check(tensor);
  memory_.inputs.push_back(tensor);
  if (is_plain(tensor)) return {tensor.const_data_ptr(), count(tensor)};
  const at::NoGradGuard no_grad;
  const at::Tensor room = make_room(tensor);
  room.copy_(tensor);
  return {room.const_data_ptr(), count(room)};
}

InputBlock Staging::input(const at::Tensor& tensor, const Reduction& reduction) {
  if (!reduction.factor.has_value()) return input(tensor);
  check(tensor);
  memory_.inputs.push_back(tensor);
  const at::NoGradGuard no_grad;
  at::Tensor room = make_room(tensor);
  at::mul_out(room, tensor.detach(), reduction.factor->reshape({}));
  return {room.const_data_ptr(), count(room)};
}

void Staging::check_writable(const at::Tensor& tensor) const {
  check(tensor);
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "mccl: the output of ",
                    call_, " has elements that share memory (an expanded tensor); pass a clone");
}

OutputBlock Staging::output(const at::Tensor& tensor) {
  check_writable(tensor);
  memory_.others.push_back(tensor);
  if (is_plain(tensor)) return {tensor.mutable_data_ptr(), count(tensor)};
  const at::NoGradGuard no_grad;
  const at::Tensor room = make_room(tensor);
  memory_.copies.push_back({room, tensor.detach()});
  return {room.mutable_data_ptr(), count(room)};
}

std::pair<InputBlock, OutputBlock> Staging::in_place(const at::Tensor& tensor,
                                                     const Reduction& reduction) {
  const OutputBlock written = output(tensor);
  if (reduction.factor.has_value()) return {input(tensor, reduction), written};
  memory_.inputs.push_back(tensor);
  if (!memory_.copies.empty() && memory_.copies.back().from.const_data_ptr() == written.data) {
    const at::NoGradGuard no_grad;
    memory_.copies.back().from.copy_(tensor);
  }
  return {{written.data, written.count}, written};
}

void Staging::separate(std::vector<InputBlock>& inputs, const std::vector<OutputBlock>& outputs,
                       int own_input, int own_output) {
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(dtype()));
  const auto begin = [](const auto& block) { return reinterpret_cast<uintptr_t>(block.data); };
  const auto end = [&](const auto& block) {
    return begin(block) + static_cast<uintptr_t>(block.count * element_bytes);
  };
  uintptr_t first = UINTPTR_MAX;
  uintptr_t last = 0;
  for (const OutputBlock& output : outputs) {
    if (output.count == 0) continue;
    first = std::min(first, begin(output));
    last = std::max(last, end(output));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    InputBlock& input = inputs[i];
    if (input.count == 0 || begin(input) >= last || end(input) <= first) continue;
    bool is_shared = false;
    for (size_t o = 0; o < outputs.size(); ++o) {
      const bool is_known = static_cast<int>(i) == own_input && static_cast<int>(o) == own_output &&
                            input.data == outputs[o].data;
      is_shared |= !is_known && outputs[o].count > 0 && begin(input) < end(outputs[o]) &&
                   begin(outputs[o]) < end(input);
    }
    if (!is_shared) continue;
    const at::Tensor copy = at::empty({input.count * element_bytes}, at::kByte);
    std::memcpy(copy.mutable_data_ptr(), input.data, copy.nbytes());
    staged_bytes_ += copy.nbytes();
    memory_.others.push_back(copy);
    input.data = copy.const_data_ptr();
  }
}

}  // namespace mccl
