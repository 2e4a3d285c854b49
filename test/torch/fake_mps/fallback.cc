// The boxed fallback: one function for every operator, by its schema.
//
//   1. The schema tells for each result whether it is an argument that is written, a fresh tensor,
//      or a value that the host needs at once.
//   2. The operator is called on Meta copies of its arguments: shapes of fresh results, and of
//      outputs that came empty.
//   3. Fresh results are allocated on the device; tensors become views without ownership
//      (host_view.h); the operator on the CPU's key is encoded.
//
// That the views own nothing is the point: a caller or a back end that lets go of a tensor too
// early has its memory overwritten by the next one, as on a GPU with a caching allocator. Tested by
// test_fake_mps.py: training equals the CPU's bit for bit, without a single drain.
#include "fallback.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>

#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "fake_device.h"
#include "host_view.h"
#include "torch_device.h"

namespace mccl::fake_mps {
namespace {

using c10::IValue;
using torch::jit::Stack;
using TensorFunction = std::function<at::Tensor(const at::Tensor&)>;

// The value with every tensor in it, if there is one, replaced by function(tensor).
IValue map_tensors(const IValue& value, const TensorFunction& function) {
  if (value.isTensor())
    return value.toTensor().defined() ? IValue(function(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorVector()) mapped.push_back(function(tensor));
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      const bool is_there = tensor.has_value() && tensor->defined();
      mapped.push_back(is_there ? std::optional(function(*tensor)) : tensor);
    }
    return mapped;
  }
  return value;
}

std::vector<at::Tensor> tensors_of(const IValue& value) {
  std::vector<at::Tensor> found;
  map_tensors(value, [&](const at::Tensor& tensor) {
    found.push_back(tensor);
    return tensor;
  });
  return found;
}

constexpr int kFresh = -1;  // a result that is none of the arguments

// What a schema says about results.
struct ResultPlan {
  std::string name;
  std::vector<int> written;  // by result: the argument that it is, or kFresh
  bool has_fresh = false;
  bool has_host_value = false;  // not a tensor: the host needs it at once
};

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

int find_written(const c10::FunctionSchema& schema, const c10::AliasInfo& result) {
  for (size_t index = 0; index < schema.arguments().size(); ++index) {
    const c10::AliasInfo* argument = schema.arguments()[index].alias_info();
    if (argument != nullptr && argument->beforeSets() == result.beforeSets())
      return static_cast<int>(index);
  }
  return kFresh;
}

ResultPlan plan_results(const c10::FunctionSchema& schema) {
  ResultPlan plan;
  plan.name = toString(schema.operator_name());
  for (const c10::Argument& result : schema.returns()) {
    plan.written.push_back(kFresh);
    if (const c10::AliasInfo* alias = result.alias_info(); alias != nullptr) {
      if (alias->isWrite()) plan.written.back() = find_written(schema, *alias);
      TORCH_CHECK_NOT_IMPLEMENTED(plan.written.back() != kFresh, "fake mps: ", plan.name,
                                  " returns a view and has no kernel; add one to kernels.cc");
      continue;
    }
    const bool is_tensor = result.type()->kind() == c10::TypeKind::TensorType ||
                           result.type()->isSubtypeOf(*c10::ListType::ofTensors());
    (is_tensor ? plan.has_fresh : plan.has_host_value) = true;
  }
  return plan;
}

bool has_empty_output(const c10::FunctionSchema& schema, const std::vector<IValue>& arguments) {
  for (size_t index = 0; index < arguments.size(); ++index) {
    if (!schema.arguments()[index].is_out()) continue;
    for (const at::Tensor& tensor : tensors_of(arguments[index]))
      if (tensor.numel() == 0) return true;
  }
  return false;
}

// The results on Meta tensors; nothing when the shapes depend on values.
std::optional<Stack> infer_results(const c10::OperatorHandle& op,
                                   const std::vector<IValue>& arguments) {
  Stack stack;
  for (const IValue& argument : arguments)
    stack.push_back(argument.isDevice() ? IValue(c10::Device(at::kMeta))
                                        : map_tensors(argument, meta_copy));
  try {
    op.callBoxed(&stack);
  } catch (const std::exception&) {
    return std::nullopt;
  }
  if (stack.size() != op.schema().returns().size()) return std::nullopt;
  return stack;
}

at::Tensor allocate_like(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(),
                           tensor.options().device(torch_device()));
}

void resize_outputs(const ResultPlan& plan, const Stack& inferred,
                    const std::vector<IValue>& arguments) {
  for (size_t result = 0; result < plan.written.size(); ++result) {
    if (plan.written[result] == kFresh || !inferred[result].isTensor()) continue;
    const at::Tensor& output = arguments[static_cast<size_t>(plan.written[result])].toTensor();
    const at::Tensor& wanted = inferred[result].toTensor();
    if (output.sizes() != wanted.sizes()) output.resize_(wanted.sizes());
  }
}

std::vector<IValue> kernel_arguments(const std::vector<IValue>& arguments) {
  std::vector<IValue> converted;
  for (const IValue& argument : arguments) {
    if (argument.isDevice())
      converted.emplace_back(c10::Device(at::kCPU));
    else if (argument.isGenerator())
      converted.emplace_back();  // the default one, which is the CPU's
    else
      converted.push_back(map_tensors(argument, kernel_argument));
  }
  return converted;
}

void add_memory(const IValue& value, std::vector<sim::MemoryRange>& ranges) {
  for (const at::Tensor& tensor : tensors_of(value))
    if (is_on_device(tensor)) ranges.push_back(memory_of(tensor));
}

// What an encoded kernel does when its time has come.
struct CpuCall {
  c10::OperatorHandle op;
  Stack arguments;
  std::vector<IValue> fresh;  // by result: views of what was allocated, none for written ones

  void operator()() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::NoGradGuard no_grad;
    Stack stack = std::move(arguments);
    op.callBoxed(&stack);
    for (size_t result = 0; result < fresh.size(); ++result) {
      const std::vector<at::Tensor> sources = tensors_of(stack[result]);
      const std::vector<at::Tensor> targets = tensors_of(fresh[result]);
      for (size_t index = 0; index < targets.size(); ++index) targets[index].copy_(sources[index]);
    }
  }
};

Stack encode(const c10::OperatorHandle& op, const ResultPlan& plan,
             const std::vector<IValue>& arguments, const std::optional<Stack>& inferred) {
  std::vector<sim::MemoryRange> reads, writes;
  for (size_t index = 0; index < arguments.size(); ++index)
    add_memory(arguments[index], is_written(op.schema().arguments()[index]) ? writes : reads);
  CpuCall call{.op = op, .arguments = kernel_arguments(arguments), .fresh = {}};
  Stack results;
  for (size_t result = 0; result < plan.written.size(); ++result) {
    const bool is_fresh = plan.written[result] == kFresh;
    results.push_back(is_fresh ? map_tensors((*inferred)[result], allocate_like)
                               : arguments[static_cast<size_t>(plan.written[result])]);
    call.fresh.push_back(is_fresh ? map_tensors(results.back(), host_view) : IValue());
    if (is_fresh) add_memory(results.back(), writes);
  }
  auto shared = std::make_shared<CpuCall>(std::move(call));  // a std::function is copied
  fake_device().encode(plan.name, std::move(reads), std::move(writes), [shared] { (*shared)(); });
  return results;
}

class SynchronousCounts {
 public:
  void add(const std::string& name) {
    const std::lock_guard lock(mutex_);
    ++counts_[name];
  }
  std::map<std::string, uint64_t> counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, uint64_t> counts_;
};

SynchronousCounts& synchronous_counts() {
  static SynchronousCounts counts;
  return counts;
}

Stack run_drained(const c10::OperatorHandle& op, const ResultPlan& plan,
                  const std::vector<IValue>& arguments) {
  synchronous_counts().add(plan.name);
  fake_device().synchronize();
  Stack stack = kernel_arguments(arguments);
  op.callBoxed(&stack);
  Stack results;
  for (size_t result = 0; result < plan.written.size(); ++result) {
    const auto to_device = [](const at::Tensor& source) {
      at::Tensor target = allocate_like(source);
      host_view(target).copy_(source);
      return target;
    };
    results.push_back(plan.written[result] == kFresh
                          ? map_tensors(stack[result], to_device)
                          : arguments[static_cast<size_t>(plan.written[result])]);
  }
  return results;
}

}  // namespace

void run_on_cpu(const c10::OperatorHandle& op, Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const ResultPlan plan = plan_results(op.schema());
  const auto first = stack->end() - static_cast<ptrdiff_t>(op.schema().arguments().size());
  const std::vector<IValue> arguments(first, stack->end());
  stack->erase(first, stack->end());

  const bool resizes = has_empty_output(op.schema(), arguments);
  std::optional<Stack> inferred;
  if (!plan.has_host_value && (plan.has_fresh || resizes)) {
    inferred = infer_results(op, arguments);
    if (inferred.has_value() && resizes) resize_outputs(plan, *inferred, arguments);
  }
  const bool can_wait =
      !plan.has_host_value && (inferred.has_value() || !(plan.has_fresh || resizes));
  Stack results =
      can_wait ? encode(op, plan, arguments, inferred) : run_drained(op, plan, arguments);
  for (IValue& result : results) stack->push_back(std::move(result));
}

std::map<std::string, uint64_t> synchronous_operators() {
  return synchronous_counts().counts();
}

}  // namespace mccl::fake_mps
