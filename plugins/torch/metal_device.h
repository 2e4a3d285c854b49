// torch's mps device on a Mac. docs/metal-notes.md says what of it has run where.
#pragma once

#include <memory>

#include "tensor_device.h"

namespace mccl {

// For register_tensor_device(). Asks nothing of Metal before a tensor comes.
std::shared_ptr<TensorDevice> make_metal_device();

}  // namespace mccl
