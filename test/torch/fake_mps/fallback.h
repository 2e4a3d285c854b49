// Every operator that has no kernel of its own runs as the CPU's, asynchronously.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <map>
#include <string>

namespace mccl::fake_mps {

// Takes the operator's arguments from the stack and leaves its results there. Results are allocated
// at once, with shapes from torch's Meta kernels; the CPU's kernel is encoded and computes them
// later. Only what cannot wait (a result that is a number, a shape that depends on values) drains
// the device and runs here; that is counted.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Operators that drained the device, by name, how often. Any thread.
std::map<std::string, uint64_t> synchronous_operators();

}  // namespace mccl::fake_mps
