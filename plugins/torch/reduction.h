// What torch calls a reduction and an element type, as the communicator calls them.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "mccl/types.h"

namespace mccl {

// PREMUL_SUM is a sum of inputs that this rank multiplies by `factor` first, in their own type.
struct Reduction {
  ReduceOp op = ReduceOp::Sum;
  std::optional<at::Tensor> factor = std::nullopt;  // a float64 scalar
};
// NotImplementedError for an operation that torch has and mccl has not, and for a factor that is
// not a real number on the CPU.
Reduction reduction_of(const c10d::ReduceOp& op);

// How elements of a torch type are named to the communicator: `parts` elements of `dtype` each.
struct Elements {
  DataType dtype;
  int64_t parts = 1;
};
// Of a call that moves them. NotImplementedError where no type of ours has their width.
Elements moved_elements(at::ScalarType type);
// Of a call that reduces them: sums of complex numbers are sums of their parts. Pairs without a
// meaning keep their type; the communicator refuses them by name. NotImplementedError where the
// factor of a PREMUL_SUM has no meaning.
Elements reduced_elements(at::ScalarType type, const Reduction& reduction);

}  // namespace mccl
