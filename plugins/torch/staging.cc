#include "staging.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "hand_off_group.h"

namespace mccl {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// From the first byte of the tensor's elements to the last.
StandIn::Range range_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t dimension = 0; dimension < tensor.dim(); ++dimension)
    last += (tensor.size(dimension) - 1) * tensor.stride(dimension);
  return {tensor.const_data_ptr(), (last + 1) * tensor.element_size()};
}

// The elements as a copy takes them. Detached: no gradients are recorded. Torch has types of a byte
// that it does not copy, so those that are moved as bytes are copied as bytes.
at::Tensor as_copied(const at::Tensor& tensor, DataType dtype) {
  const at::Tensor detached = tensor.detach();
  const bool is_byte = dtype == DataType::UInt8 && tensor.element_size() == 1;
  return is_byte && tensor.scalar_type() != at::kByte ? detached.view(at::kByte) : detached;
}

// On the thread that drives the engine.
Status run(const std::vector<std::function<void()>>& copies) {
  try {
    // No gradients, and also into tensors of inference mode.
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const std::function<void()>& copy : copies) copy();
    return Status::ok();
  } catch (const std::exception& error) {
    return Status(StatusCode::Internal, std::string("a copy of a tensor failed: ") + error.what());
  }
}

}  // namespace

void Staging::check(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.defined(), "mccl: ", call_, " got an undefined tensor");
  check_place(tensor);
  if (tensor.layout() != at::kStrided)
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("mccl: ", call_, " of a ", tensor.layout(),
                             " tensor is not supported; supported are strided tensors, and sparse "
                             "COO tensors in all_reduce"));
  TORCH_CHECK_VALUE(tensor.scalar_type() == type_, "mccl: the tensors of ", call_,
                    " are of one dtype; one is ", type_, ", another ", tensor.scalar_type());
  TORCH_CHECK_VALUE(tensor.numel() == 0 || tensor.const_data_ptr() != nullptr, "mccl: a tensor of ",
                    call_, " has ", tensor.numel(),
                    " elements and no memory: its storage was freed");
}

void Staging::check_place(const at::Tensor& tensor) {
  const c10::Device place = tensor.device();
  if (!place_.has_value()) {
    if (!place.is_cpu() && (memory_.device = find_tensor_device(place.type())) == nullptr)
      C10_THROW_ERROR(NotImplementedError,
                      c10::str("mccl: ", call_, " of a tensor on ", place,
                               " is not supported; supported are cpu, and mps on a Mac"));
    place_ = place;
  }
  TORCH_CHECK_VALUE(place == *place_, "mccl: the tensors of ", call_,
                    " are on one device; one is on ", *place_, ", another on ", place);
}

at::Tensor Staging::see(const at::Tensor& tensor, bool is_read, bool is_written) {
  if (memory_.device == nullptr) return tensor;
  // A copy of nothing is a copy all the same: the engine makes none on the device.
  if (tensor.numel() == 0)
    return at::empty_strided(tensor.sizes(), tensor.strides(),
                             at::TensorOptions().dtype(tensor.dtype()));
  for (const Seen& before : seen_)
    if (before.tensor.is_same(tensor) && (before.is_read || !is_read) &&
        (before.is_written || !is_written))
      return before.seen;
  void* address = memory_.device->host_address(tensor);
  const bool is_copy = address == nullptr;
  if (is_copy) {
    const StagedTensor staged{tensor, is_read, is_written};
    Result<StagedCall> call = memory_.device->make_staged_call({&staged, 1});
    throw_unless_ok(call.status());
    address = call.value().addresses[0];
    staged_.push_back(std::move(call.value().hand_off));
    if (is_written) memory_.returns.push_back(std::move(call.value().await_returned));
    staged_bytes_ += static_cast<uint64_t>(tensor.nbytes());
  }
  at::Tensor seen = at::from_blob(address, tensor.sizes(), tensor.strides(),
                                  at::TensorOptions().dtype(tensor.dtype()));
  seen._set_conj(tensor.is_conj());
  seen._set_neg(tensor.is_neg());
  seen_.push_back({tensor, seen, is_read || !is_copy, is_written || !is_copy});
  return seen;
}

bool Staging::is_usable(const at::Tensor& seen) const {
  return is_plain(seen) && (memory_.device == nullptr || is_unified_in_place_ || !staged_.empty());
}

// One hand-off of a staged tensor orders the call's other tensors, too.
std::shared_ptr<HandOff> Staging::take_hand_off() {
  if (memory_.device == nullptr) return nullptr;
  if (staged_.empty()) return memory_.device->current_stream();
  if (staged_.size() == 1) return staged_[0];
  return std::make_shared<HandOffGroup>(std::move(staged_));
}

at::Tensor Staging::make_room(const at::Tensor& tensor) {
  at::Tensor room = at::empty(tensor.sizes(), at::TensorOptions().dtype(type_));
  staged_bytes_ += static_cast<uint64_t>(room.nbytes());
  memory_.others.push_back(room);
  return room;
}

InputBlock Staging::input(const at::Tensor& tensor) {
  check(tensor);
  const at::Tensor seen = see(tensor, true, false);
  memory_.inputs.push_back(tensor);
  memory_.storages.push_back(tensor.storage());
  ranges_.reads.push_back(range_of(seen));
  if (is_usable(seen)) return {seen.const_data_ptr(), count(seen)};
  const at::Tensor room = make_room(seen);
  copies_.in.push_back(
      [to = as_copied(room, dtype()), from = as_copied(seen, dtype())] { to.copy_(from); });
  return {room.const_data_ptr(), count(room)};
}

InputBlock Staging::input(const at::Tensor& tensor, const Reduction& reduction) {
  if (!reduction.factor.has_value()) return input(tensor);
  check(tensor);
  const at::Tensor seen = see(tensor, true, false);
  memory_.inputs.push_back(tensor);
  memory_.storages.push_back(tensor.storage());
  ranges_.reads.push_back(range_of(seen));
  at::Tensor room = make_room(seen);
  copies_.in.push_back([room, source = seen.detach(), factor = *reduction.factor]() mutable {
    at::mul_out(room, source, factor);
  });
  return {room.const_data_ptr(), count(room)};
}

void Staging::check_writable(const at::Tensor& tensor) {
  check(tensor);
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "mccl: the output of ",
                    call_, " has elements that share memory (an expanded tensor); pass a clone");
}

OutputBlock Staging::output(const at::Tensor& tensor) {
  check_writable(tensor);
  // What lies between the elements of a strided tensor is copied back, too.
  const at::Tensor seen = see(tensor, !is_plain(tensor), true);
  memory_.others.push_back(tensor);
  memory_.storages.push_back(tensor.storage());
  ranges_.reads.push_back(range_of(seen));
  ranges_.writes.push_back(range_of(seen));
  if (is_usable(seen)) return {seen.mutable_data_ptr(), count(seen)};
  const at::Tensor room = make_room(seen);
  copies_.out.push_back(
      [to = as_copied(seen, dtype()), from = as_copied(room, dtype())] { to.copy_(from); });
  return {room.mutable_data_ptr(), count(room)};
}

std::pair<InputBlock, OutputBlock> Staging::in_place(const at::Tensor& tensor,
                                                     const Reduction& reduction) {
  check_writable(tensor);
  const at::Tensor seen = see(tensor, true, true);
  const OutputBlock written = output(tensor);
  if (reduction.factor.has_value()) return {input(tensor, reduction), written};
  memory_.inputs.push_back(tensor);
  if (!is_usable(seen)) {
    const at::Tensor room = memory_.others.back();
    copies_.in.push_back(
        [to = as_copied(room, dtype()), from = as_copied(seen, dtype())] { to.copy_(from); });
  }
  return {{written.data, written.count}, written};
}

std::shared_ptr<const StandIn> Staging::take_stand_in() {
  if (copies_.in.empty() && copies_.out.empty()) return nullptr;
  const auto copies = std::make_shared<StagedCopies>(std::move(copies_));
  memory_.copies = copies;
  auto stand_in = std::make_shared<StandIn>(std::move(ranges_));
  if (!copies->in.empty()) stand_in->copy_in = [copies] { return run(copies->in); };
  if (!copies->out.empty()) stand_in->copy_out = [copies] { return run(copies->out); };
  return stand_in;
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
    copies_.in.push_back([copy, source = input.data] {
      std::memcpy(copy.mutable_data_ptr(), source, copy.nbytes());
    });
    staged_bytes_ += copy.nbytes();
    memory_.others.push_back(copy);
    input.data = copy.const_data_ptr();
  }
}

}  // namespace mccl
