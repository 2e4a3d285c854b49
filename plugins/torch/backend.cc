#include "backend.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <utility>

#include "torch_store.h"

namespace mccl {
namespace {

// ReduceOp and dtype names for refusals, with what is served.
ReduceOp reduce_op_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return ReduceOp::Sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::Avg;
    case c10d::ReduceOp::MIN:
      return ReduceOp::Min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::Max;
    default:
      break;
  }
  static constexpr const char* kNames[] = {"SUM",  "AVG", "PRODUCT", "MIN",        "MAX",
                                           "BAND", "BOR", "BXOR",    "PREMUL_SUM", "UNUSED"};
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("mccl: ReduceOp.", kNames[static_cast<size_t>(op.op_)],
                           " is not supported; supported are SUM, AVG, MIN, MAX"));
}

// Of a call that only moves elements, or of one that reduces them.
DataType dtype_of(const at::Tensor& tensor, bool reduces) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return DataType::Float32;
    case at::kBFloat16:
      return DataType::BFloat16;
    case at::kLong:
      return DataType::Int64;
    case at::kInt:
      if (!reduces) return DataType::Int32;
      break;
    case at::kByte:
      if (!reduces) return DataType::UInt8;
      break;
    default:
      break;
  }
  C10_THROW_ERROR(NotImplementedError,
                  c10::str("mccl: dtype ", tensor.scalar_type(),
                           " is not supported; supported are "
                           "torch.float32, torch.bfloat16, torch.int64, torch.int32",
                           reduces ? "" : ", torch.uint8"));
}

const at::Tensor& single(const std::vector<at::Tensor>& tensors, const char* call) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "mccl: ", call, " takes one tensor per rank, not ",
                    tensors.size());
  return tensors[0];
}

void check_tensor(const at::Tensor& tensor, const char* call) {
  if (!tensor.device().is_cpu())
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("mccl: ", call, " of a tensor on ", tensor.device(),
                             " is not supported; supported is cpu"));
  if (tensor.layout() != at::kStrided)
    C10_THROW_ERROR(NotImplementedError,
                    c10::str("mccl: ", call, " of a ", tensor.layout(),
                             " tensor is not supported; supported are strided tensors"));
}

void check_output(const at::Tensor& tensor, const char* call) {
  check_tensor(tensor, call);
  TORCH_CHECK_VALUE(at::has_internal_overlap(tensor) != at::MemOverlap::Yes, "mccl: the output of ",
                    call, " has elements that share memory (an expanded tensor); pass a clone");
}

// The tensor itself, or a contiguous stand-in.
at::Tensor stage(const at::Tensor& tensor, bool copies_in) {
  if (tensor.is_contiguous()) return tensor;
  const at::NoGradGuard no_grad;
  return copies_in ? tensor.detach().contiguous()
                   : at::empty(tensor.sizes(), tensor.options().requires_grad(false));
}

void add_copy(const at::Tensor& from, const at::Tensor& to, std::vector<CopyBack>& copies) {
  if (!from.is_same(to)) copies.push_back({from, to.detach()});
}

}  // namespace

// One per process while any group lives: made by the first, destroyed with the last.
struct Backend::Shared {
  pid_t pid = getpid();
  std::unique_ptr<Endpoint> endpoint;
  CompletionThread completions;
};

std::shared_ptr<Backend::Shared> Backend::share(const std::string& master_address) {
  // The one mutable global of the project (design 3): the process-wide endpoint.
  static std::mutex mutex;
  static std::weak_ptr<Shared> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Shared> living = shared.lock();
  if (living != nullptr) return living;
  Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::create({{}, master_address});
  throw_unless_ok(endpoint.status());
  living = std::make_shared<Shared>();
  living->endpoint = std::move(endpoint).value();
  shared = living;
  return living;
}

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options, const std::string& master_address,
                 InterpreterHooks hooks)
    : c10d::Backend(rank, size),
      hooks_(std::move(hooks)),
      options_(std::move(options)),
      shared_(share(master_address)) {
  init();
  TorchStore meeting_place(store);
  CommunicatorOptions communicator_options;
  communicator_options.timeout_ns = std::chrono::nanoseconds(options_->timeout).count();
  std::exception_ptr interrupt;
  communicator_options.interrupted = [&] {
    interrupt = hooks_.take_interrupt();
    return interrupt != nullptr;
  };
  Result<std::unique_ptr<Communicator>> communicator =
      Communicator::create(*shared_->endpoint, meeting_place, rank, size, communicator_options);
  if (interrupt != nullptr) std::rethrow_exception(interrupt);
  throw_unless_ok(communicator.status());
  communicator_ = std::move(communicator).value();
}

Backend::~Backend() {
  hooks_.without_lock([this] { shutdown(); });
}

void Backend::shutdown() {
  std::shared_ptr<Communicator> leaving;
  std::shared_ptr<Shared> shared;
  {
    const std::lock_guard lock(mutex_);
    leaving = std::move(communicator_);
    shared = std::move(shared_);
  }
  if (shared != nullptr && shared->pid != getpid()) {
    // A forked child: the threads to end and join are the parent's. Nothing here is its own.
    (void)new std::shared_ptr<Communicator>(std::move(leaving));
    (void)new std::shared_ptr<Shared>(std::move(shared));
    return;
  }
  leaving.reset();
  shared.reset();  // the last group's ends the completion thread, after what it has to run
}

void Backend::abort() {
  std::shared_ptr<Shared> shared;  // outlives the communicator, which refers to it
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(mutex_);
    communicator = communicator_;
    shared = shared_;
  }
  if (communicator != nullptr) communicator->abort("abort() was called");
}

Backend::WorkPointer Backend::post(c10d::OpType type, const char* title, Tensors inputs,
                                   Tensors outputs, std::vector<CopyBack> copies,
                                   std::chrono::milliseconds timeout, bool is_async,
                                   const Post& post) {
  std::shared_ptr<Shared> shared;  // outlives the communicator, which refers to it
  std::shared_ptr<Communicator> communicator;
  {
    const std::lock_guard lock(mutex_);
    communicator = communicator_;
    shared = shared_;
  }
  TORCH_CHECK_WITH(DistBackendError, communicator != nullptr,
                   "mccl: the process group was shut down");
  auto work = c10::make_intrusive<TorchWork>(getRank(), type, title, std::move(inputs),
                                             std::move(outputs), std::move(copies),
                                             hooks_.take_interrupt, shared->completions, !is_async);
  CallOptions options;
  const std::chrono::milliseconds limit =
      timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
  options.timeout_ns = std::chrono::nanoseconds(limit).count();
  options.will_wait = !is_async;
  // Held by the engine until the operation is over; a dropped Work completes all the same.
  options.on_complete = [work](const Status& status) { work->on_operation_over(status); };
  Result<std::shared_ptr<mccl::Work>> posted = post(*communicator, std::move(options));
  throw_unless_ok(posted.status());
  work->set_work(std::move(posted).value());
  ++collective_count_;
  return work;
}

Backend::WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = single(tensors, "all_reduce");
  check_output(tensor, "all_reduce");
  // DDP reduces its map of used parameters as int32. The kernels have int64, whose sums, cut to 32
  // bits again, are the same.
  const bool is_widened = tensor.scalar_type() == at::kInt;
  const DataType dtype = is_widened ? DataType::Int64 : dtype_of(tensor, true);
  const ReduceOp op = reduce_op_of(options.reduceOp);
  const at::Tensor staged = is_widened
                                ? tensor.to(at::kLong, false, false, at::MemoryFormat::Contiguous)
                                : stage(tensor, true);
  std::vector<CopyBack> copies;
  add_copy(staged, tensor, copies);
  void* data = staged.data_ptr();
  const int64_t count = staged.numel();
  return post(c10d::OpType::ALLREDUCE, "mccl:all_reduce", {tensor, staged}, {tensor},
              std::move(copies), options.timeout, options.asyncOp,
              [=](Communicator& communicator, CallOptions call) {
                return communicator.all_reduce(data, data, count, dtype, op, std::move(call));
              });
}

Backend::WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = single(tensors, "broadcast");
  check_output(tensor, "broadcast");
  const DataType dtype = dtype_of(tensor, false);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  const at::Tensor staged = stage(tensor, is_root);
  std::vector<CopyBack> copies;
  if (!is_root) add_copy(staged, tensor, copies);
  void* data = staged.data_ptr();
  const int64_t count = staged.numel();
  return post(c10d::OpType::BROADCAST, "mccl:broadcast", {tensor, staged}, {tensor},
              std::move(copies), options.timeout, options.asyncOp,
              [=](Communicator& communicator, CallOptions call) {
                return communicator.broadcast(data, count, dtype, root, std::move(call));
              });
}

Backend::WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  const at::Tensor& input = single(inputs, "all_gather");
  TORCH_CHECK_VALUE(outputs.size() == 1, "mccl: all_gather takes one list of outputs, not ",
                    outputs.size());
  return gather_blocks(c10d::OpType::ALLGATHER, "mccl:all_gather", input, outputs[0], outputs[0],
                       options);
}

Backend::WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& options) {
  check_output(output, "all_gather_into_tensor");
  TORCH_CHECK_VALUE(output.is_contiguous(),
                    "mccl: the output of all_gather_into_tensor must be contiguous");
  TORCH_CHECK_VALUE(output.numel() == input.numel() * getSize(),
                    "mccl: the output of all_gather_into_tensor has ", output.numel(),
                    " elements, ", getSize(), " ranks with ", input.numel(), " each need ",
                    input.numel() * getSize());
  const at::NoGradGuard no_grad;
  const at::Tensor flat = output.detach().view({-1});
  Tensors blocks;
  for (int rank = 0; rank < getSize(); ++rank)
    blocks.push_back(flat.narrow(0, rank * input.numel(), input.numel()));
  return gather_blocks(c10d::OpType::_ALLGATHER_BASE, "mccl:all_gather_into_tensor", input,
                       std::move(blocks), {output}, options);
}

Backend::WorkPointer Backend::gather_blocks(c10d::OpType type, const char* title,
                                            const at::Tensor& input, Tensors blocks,
                                            Tensors outputs,
                                            const c10d::AllgatherOptions& options) {
  check_tensor(input, "all_gather");
  TORCH_CHECK_VALUE(static_cast<int>(blocks.size()) == getSize(), "mccl: all_gather has ",
                    blocks.size(), " outputs for ", getSize(), " ranks");
  const at::Tensor& own = blocks[static_cast<size_t>(getRank())];
  TORCH_CHECK_VALUE(own.numel() == input.numel(), "mccl: all_gather's own input has ",
                    input.numel(), " elements, its output ", own.numel());
  const at::Tensor staged_input = stage(input, true);
  Tensors held = {input, staged_input};
  std::vector<CopyBack> copies;
  std::vector<OutputBlock> places;
  for (const at::Tensor& block : blocks) {
    check_output(block, "all_gather");
    TORCH_CHECK_VALUE(block.scalar_type() == input.scalar_type(), "mccl: all_gather's input is ",
                      input.scalar_type(), ", an output is ", block.scalar_type());
    const at::Tensor staged = stage(block, false);
    add_copy(staged, block, copies);
    held.push_back(staged);
    places.push_back({staged.data_ptr(), staged.numel()});
  }
  const DataType dtype = dtype_of(input, false);
  const void* data = staged_input.const_data_ptr();
  return post(type, title, std::move(held), std::move(outputs), std::move(copies), options.timeout,
              options.asyncOp, [=](Communicator& communicator, CallOptions call) {
                return communicator.all_gather(data, places, dtype, std::move(call));
              });
}

Backend::WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  return post(c10d::OpType::BARRIER, "mccl:barrier", {}, {}, {}, options.timeout, options.asyncOp,
              [](Communicator& communicator, CallOptions call) {
                return communicator.barrier(std::move(call));
              });
}

CommunicatorStats Backend::stats() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, communicator_ != nullptr,
                   "mccl: the process group was shut down");
  return communicator_->stats();
}

std::string Backend::explain(Collective collective, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, communicator_ != nullptr,
                   "mccl: the process group was shut down");
  return communicator_->explain(collective, bytes);
}

}  // namespace mccl
