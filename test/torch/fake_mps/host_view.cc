#include "host_view.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include "torch_device.h"

namespace mccl::fake_mps {
namespace {

// A Python number takes part in type promotion otherwise than a tensor does.
at::Tensor as_number_like(at::Tensor copy, const at::Tensor& tensor) {
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number())
    copy.unsafeGetTensorImpl()->set_wrapped_number(true);
  return copy;
}

}  // namespace

bool is_on_device(const at::Tensor& tensor) {
  return tensor.device().type() == kDeviceType;
}

at::Tensor host_view(const at::Tensor& tensor) {
  void* data = tensor.unsafeGetTensorImpl()->mutable_data();
  return as_number_like(at::from_blob(data, tensor.sizes(), tensor.strides(),
                                      at::TensorOptions().dtype(tensor.dtype())),
                        tensor);
}

at::Tensor kernel_argument(const at::Tensor& tensor) {
  return is_on_device(tensor) ? host_view(tensor) : as_number_like(tensor.clone(), tensor);
}

at::Tensor meta_copy(const at::Tensor& tensor) {
  const at::TensorOptions options = tensor.options().device(at::kMeta).requires_grad(false);
  return as_number_like(at::empty_strided(tensor.sizes(), tensor.strides(), options), tensor);
}

sim::MemoryRange memory_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last += (tensor.size(dim) - 1) * tensor.stride(dim);
  return {.data = tensor.unsafeGetTensorImpl()->mutable_data(),
          .bytes = static_cast<size_t>((last + 1) * tensor.element_size())};
}

}  // namespace mccl::fake_mps
