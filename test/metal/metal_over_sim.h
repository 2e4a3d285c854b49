// The Metal hand-off as the hand-off of the simulated device (src/sim/device.h): signals and waits
// that plugins/torch/metal_device.mm encodes become commands of that device's stream, between the
// kernels that the test's torch device encodes there. README.md says how to link it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/device.h"
#include "tensor_device.h"

namespace mccl::fake_metal {

// For register_tensor_device(). Once in a process, since torch has one mps device. `device`
// outlives the process's calls, and is executed by a thread of its own: a wait blocks that thread.
// The data pointers of its tensors are addresses of the host's memory.
std::shared_ptr<TensorDevice> make_metal_over_sim(sim::Device& device);

// What the stand-ins for Metal's objects found broken, beside the simulated device's own judge.
std::vector<std::string> metal_violations();

}  // namespace mccl::fake_metal
