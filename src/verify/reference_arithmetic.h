// Scalar arithmetic of the reference executor, written for clarity and independent of every kernel.
#pragma once

#include <cstdint>
#include <span>

#include "mccl/types.h"

namespace mccl::judge {

// An element as the bits of its type, in the low bytes; the largest is a complex128.
__extension__ using ElementBits = unsigned __int128;

// The left fold of the operands in their order, in the type's accumulation type (float32 for half
// types), rounded once; two operands are one binary reduction, one comes back unchanged. Avg adds.
// The pair must have a meaning (is_reduction_defined).
ElementBits combine_elements(DataType dtype, ReduceOp op, std::span<const ElementBits> operands);

// One true division; integers toward zero. `divisor` is positive; not for bool.
ElementBits divide_element(DataType dtype, ElementBits value, int64_t divisor);

}  // namespace mccl::judge
