#include "kernels.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <optional>

#include "fake_device.h"
#include "fallback.h"
#include "host_view.h"
#include "torch_device.h"

namespace mccl::fake_mps {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::MPS);

// -- Memory.

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, device_allocator(), kKeys, c10::dtype_or_default(dtype),
                                   format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys,
                                           c10::dtype_or_default(dtype));
}

// Growing copies the old bytes on the host.
const at::Tensor& resize(const at::Tensor& tensor, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> format) {
  if (tensor.storage().nbytes() > 0) fake_device().synchronize();
  return at::native::resize_(tensor, sizes, format);
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage source, int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::set_storage_cpu_(tensor, std::move(source), offset, sizes, strides);
}

// -- Copies. To the device they stay asynchronous; to the CPU they drain.

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!is_on_device(target)) {
    fake_device().synchronize();
    target.copy_(host_view(source));
    return target;
  }
  std::vector<sim::MemoryRange> reads;
  if (is_on_device(source)) reads.push_back(memory_of(source));
  fake_device().encode("copy", std::move(reads), {memory_of(target)},
                       [from = kernel_argument(source), to = host_view(target)] {
                         const at::AutoDispatchBelowADInplaceOrView below;
                         to.copy_(from);
                       });
  return target;
}

// torch's own copy_ calls a kernel stub for MPS that only a Mac's torch fills.
at::Tensor& copy(at::Tensor& target, const at::Tensor& source, bool non_blocking) {
  copy_from(source.expand(target.sizes()), target, non_blocking);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  fake_device().synchronize();
  return host_view(tensor).item();
}

// -- Views.

at::Tensor as_strided(const at::Tensor& tensor, at::IntArrayRef sizes, at::IntArrayRef strides,
                      std::optional<int64_t> offset) {
  return at::native::as_strided_tensorimpl(tensor, sizes, strides, offset);
}

// -- Convolution: torch sends a device that it does not know to operators of other names.

c10::OperatorHandle find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

void convolve(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_on_cpu(find_operator("aten::convolution"), stack);
}

void convolve_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  constexpr ptrdiff_t kArguments = 10, kBiasSizes = 3;
  const auto first = stack->end() - kArguments;
  const int64_t channels = first->toTensor().size(1);  // of the gradient
  stack->insert(first + kBiasSizes, c10::IValue(c10::List<int64_t>({channels})));
  run_on_cpu(find_operator("aten::convolution_backward"), stack);
}

void register_operators(torch::Library& library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("resize_", &resize);
  library.impl("set_", &at::native::set_cpu_);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_.source_Storage", &at::native::set_);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("copy_", &copy);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &local_scalar);
  library.impl("as_strided", &as_strided);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolve>());
  library.impl("convolution_backward_overrideable",
               torch::CppFunction::makeFromBoxedFunction<&convolve_backward>());
}

torch::Library* make_library(const char* name) {
  // Never destroyed: at the end of a process torch's dispatcher may be gone before it.
  return new torch::Library(torch::Library::IMPL, name, c10::DispatchKey::MPS, __FILE__, __LINE__);
}

}  // namespace

void register_kernels() {
  static torch::Library* const fallback = make_library("_");
  fallback->fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
  static torch::Library* const operators = make_library("aten");
  register_operators(*operators);
}

}  // namespace mccl::fake_mps
