// A device tensor as its kernels and the simulated device see it: host memory that nobody owns.
#pragma once

#include <ATen/core/Tensor.h>

#include "sim/device.h"

namespace mccl::fake_mps {

bool is_on_device(const at::Tensor& tensor);

// The same elements as a CPU tensor. It owns nothing: memory that was released and handed out again
// is read and written all the same, as a GPU would.
at::Tensor host_view(const at::Tensor& tensor);

// Of a kernel's argument: a host_view, or of a tensor on the CPU a copy, since the caller may
// change it before the kernel runs.
at::Tensor kernel_argument(const at::Tensor& tensor);

// A tensor of the same shape without elements, for torch's Meta kernels.
at::Tensor meta_copy(const at::Tensor& tensor);

// From the first byte to the last one of its elements.
sim::MemoryRange memory_of(const at::Tensor& tensor);

}  // namespace mccl::fake_mps
