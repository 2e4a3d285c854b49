// c10d's collectives for tensors on mps. torch registers its operators for CPU and CUDA only, so
// dist.all_reduce() of an mps tensor would end in the dispatcher, before any back end is asked. One
// boxed kernel serves them all: where the group's back end for mps is its back end for CPU, the
// CPU's kernel does the right thing, since all it does with the device is to look the back end up.
//
// Whatever the operator's arguments are, they pass through untouched: schemas differ between
// torch's versions. An operator that torch serves on mps itself keeps its own kernel.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace mccl {
namespace {

constexpr const char* kOperators[] = {
    "allgather_",
    "_allgather_base_",
    "allgather_coalesced_",
    "allgather_into_tensor_coalesced_",
    "allreduce_",
    "allreduce_coalesced_",
    "alltoall_",
    "alltoall_base_",
    "barrier",
    "broadcast_",
    "gather_",
    "recv_",
    "recv_any_source_",
    "reduce_",
    "reduce_scatter_",
    "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced_",
    "scatter_",
    "send",
};

// The operator's process group: its only argument of that class.
c10::intrusive_ptr<c10d::ProcessGroup> find_group(const c10::OperatorHandle& op,
                                                  const torch::jit::Stack& stack) {
  const auto& arguments = op.schema().arguments();
  const auto group_type = c10::getCustomClassType<c10::intrusive_ptr<c10d::ProcessGroup>>();
  for (size_t index = 0; index < arguments.size(); ++index) {
    if (*arguments[index].type() != *group_type) continue;
    return stack[stack.size() - arguments.size() + index].toCustomClass<c10d::ProcessGroup>();
  }
  TORCH_CHECK(false, "mccl: ", op.schema().name(), " has no process group among its arguments");
}

// Null when the group has none for the device, which c10d throws for.
c10::intrusive_ptr<c10d::Backend> find_backend(c10d::ProcessGroup& group, c10::DeviceType type) {
  try {
    return group.getBackend(type);
  } catch (const c10::Error&) {
    return nullptr;
  }
}

std::string name_of(const c10::intrusive_ptr<c10d::Backend>& backend) {
  return backend == nullptr ? "none" : backend->getBackendName();
}

void run_cpu_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto group = find_group(op, *stack);
  const auto mps = find_backend(*group, c10::DeviceType::MPS);
  const auto cpu = find_backend(*group, c10::DeviceType::CPU);
  // Else the tensor would reach a back end that cannot know of the device, and be read too early.
  TORCH_CHECK(mps != nullptr && mps.get() == cpu.get(), "mccl: ", op.schema().name(),
              " of an mps tensor needs one back end for mps and cpu, but this process group has ",
              name_of(mps), " for mps and ", name_of(cpu),
              " for cpu; make it with init_process_group(backend=\"mccl\")");
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

}  // namespace

// torch's own way to add kernels; it happens when the module is loaded.
TORCH_LIBRARY_IMPL(c10d, MPS, library) {
  for (const char* name : kOperators) {
    const auto op = c10::Dispatcher::singleton().findSchema({std::string("c10d::") + name, ""});
    if (!op.has_value() || op->hasKernelForDispatchKey(c10::DispatchKey::MPS)) continue;
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_cpu_kernel>());
  }
}

}  // namespace mccl
