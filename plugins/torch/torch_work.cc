#include "torch_work.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <exception>
#include <future>
#include <limits>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <utility>

namespace mccl {

void throw_unless_ok(const Status& status) {
  switch (status.code()) {
    case StatusCode::Ok:
      return;
    case StatusCode::InvalidArgument:
      C10_THROW_ERROR(ValueError, "mccl: " + status.message());
    case StatusCode::Unsupported:
      C10_THROW_ERROR(NotImplementedError, "mccl: " + status.message());
    case StatusCode::Network:
      C10_THROW_ERROR(DistNetworkError, "mccl: " + status.message());
    case StatusCode::NotProven:
    case StatusCode::Mismatch:
    case StatusCode::PeerLost:
    case StatusCode::Timeout:
    case StatusCode::Aborted:
    case StatusCode::Internal:
      break;
  }
  C10_THROW_ERROR(DistBackendError, "mccl: " + status.message());
}

std::exception_ptr to_exception(const Status& status) {
  try {
    throw_unless_ok(status);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

int64_t limit_ns(std::chrono::milliseconds limit) {
  constexpr auto kMost =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds::max());
  // Torch's binding counts microseconds in 64 bits: datetime.timedelta.max wraps around.
  if (limit > kMost || limit < -kMost) return std::numeric_limits<int64_t>::max();
  TORCH_CHECK_VALUE(limit.count() >= 0, "mccl: a timeout of ", limit.count(), " ms is negative");
  return std::chrono::nanoseconds(limit).count();
}

TorchWork::TorchWork(int rank, c10d::OpType type, const char* title, CallMemory memory,
                     TakeInterrupt take_interrupt, CompletionThread& completions,
                     bool completes_in_wait, std::shared_ptr<DeviceWorks> device_works)
    : c10d::Work(rank, type, title, memory.inputs),
      memory_(std::move(memory)),
      has_end_(memory_.finish != nullptr || !memory_.returns.empty() ||
               recordFunctionEndCallback_ != nullptr),
      completions_(completions),
      is_async_(!completes_in_wait),
      completes_in_wait_(completes_in_wait),
      take_interrupt_(std::move(take_interrupt)),
      device_works_(std::move(device_works)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

bool TorchWork::claim() {
  const std::lock_guard lock(mutex_);
  const bool is_mine = is_over_ && !is_claimed_;
  is_claimed_ |= is_mine;
  return is_mine;
}

void TorchWork::set_work(std::shared_ptr<mccl::Work> work) {
  work_ = std::move(work);
  end_holding();
}

void TorchWork::begin_holding() {
  const std::lock_guard lock(mutex_);
  ++holder_count_;
}

void TorchWork::end_holding() {
  c10::intrusive_ptr<TorchWork>
      engines_own;  // dropped after the lock; the caller has one of its own
  const std::lock_guard lock(mutex_);
  if (--holder_count_ == 0) engines_own = std::move(engines_own_);
}

void TorchWork::on_operation_over(c10::intrusive_ptr<TorchWork> reference, const Status& status) {
  TorchWork& work = *reference;
  {
    const std::lock_guard lock(work.mutex_);
    work.is_over_ = true;
    work.over_status_ = status;
    if (work.is_left_to_stream_) work.device_works_->end_stream_wait(status);
    if (work.completes_in_wait_ && work.holder_count_ > 0) {
      work.engines_own_ = std::move(reference);
      return;
    }
  }
  work.completions_.post([reference = std::move(reference)]() mutable {
    if (reference->claim()) reference->complete();
    if (const std::shared_ptr<DeviceWorks> works = reference->device_works_)
      works->keep(std::move(reference));
  });
}

c10::intrusive_ptr<c10::ivalue::Future> TorchWork::getFuture() {
  bool completes_here = false;
  {
    const std::lock_guard lock(mutex_);
    completes_here = completes_in_wait_;
    completes_in_wait_ = false;  // from now on nobody is sure to wait
  }
  // Nobody holds the Future yet, so no callback runs here.
  if (completes_here && claim()) complete();
  return future_;
}

void TorchWork::drop_all_but_outputs() {
  memory_.inputs.clear();
  memory_.others.clear();
  memory_.storages.clear();
  if (memory_.copies != nullptr) *memory_.copies = {};
  memory_.finish = {};
}

void TorchWork::wait_until_returned() {
  constexpr std::chrono::seconds kLimit{30};  // a copy within one machine
  for (const auto& await_returned : memory_.returns) {
    // Shared with the device, which may come when nobody waits any longer.
    const auto returned = std::make_shared<std::promise<void>>();
    if (await_returned([returned] { returned->set_value(); })) continue;
    TORCH_CHECK_WITH(DistBackendError,
                     returned->get_future().wait_for(kLimit) == std::future_status::ready,
                     "mccl: the device has not copied a result back within ", kLimit.count(), " s");
  }
}

void TorchWork::complete() {
  std::exception_ptr error = to_exception(over_status_);
  if (error == nullptr) {
    try {
      // Also into tensors of inference mode, which only its own threads may write otherwise.
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      wait_until_returned();
      if (memory_.finish) memory_.finish();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (device_works_ == nullptr) drop_all_but_outputs();
  finish(error);  // first: a callback of the Future may wait for this very work
  if (error != nullptr) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(memory_.outputs));
  }
}

bool TorchWork::isCompleted() {
  const std::lock_guard lock(mutex_);
  // The Future may be complete a moment before the engine has marked its own work done.
  return completed_ || (!has_end_ && work_->is_done());
}

bool TorchWork::isSuccess() const {
  const std::lock_guard lock(mutex_);
  return completed_ ? exception_ == nullptr : work_->is_done() && work_->status().is_ok();
}

bool TorchWork::is_left_to_stream() {
  // What is made of the outputs afterwards is made by the CPU, and who calls wait() relies on it. A
  // call that was not asynchronous may wait long for a peer: longer than a device waits.
  if (device_works_ == nullptr || memory_.finish || !is_async_) return false;
  {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
  }
  const Result<bool> is_ordered = work_->wait_on_stream();
  if (!is_ordered.is_ok() || !is_ordered.value()) {
    device_works_->count_host_wait();
    return false;
  }
  for (const at::Tensor& output : memory_.outputs) memory_.device->note_consumer(output);
  const std::lock_guard lock(mutex_);
  if (is_over_) return false;
  completes_in_wait_ = false;  // by the thread of completions
  device_works_->count_stream_wait();
  if (!std::exchange(is_left_to_stream_, true)) device_works_->begin_stream_wait();
  return true;
}

std::exception_ptr TorchWork::wait_for_end(std::chrono::milliseconds timeout) {
  const bool is_limited = timeout != kNoTimeout && timeout != c10d::kUnsetTimeout;
  if (!is_limited && is_left_to_stream()) return nullptr;
  const int64_t timeout_ns = is_limited ? limit_ns(timeout) : -1;
  std::exception_ptr interrupt;
  begin_holding();
  const Status status = work_->wait(timeout_ns, [&] {
    interrupt = take_interrupt_();
    return interrupt != nullptr;
  });
  bool is_over = false;
  bool completes_here = has_end_;
  {
    const std::lock_guard lock(mutex_);
    is_over = is_over_;
    completes_here |= completes_in_wait_;
    if (!is_over) completes_in_wait_ = false;  // from now on nobody is sure to wait
  }
  end_holding();
  // Who needs the end does not queue behind other completions, or behind itself in a callback.
  if (completes_here && claim()) complete();
  // Also when the work was done meanwhile: the signal has been taken and would be lost.
  if (interrupt != nullptr) std::rethrow_exception(interrupt);
  if (!is_over) throw_unless_ok(status);
  if (!has_end_) return to_exception(is_over ? over_status_ : status);
  // The data is here; another thread is doing the rest.
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [this] { return completed_; });
  return exception_;
}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  if (const std::exception_ptr error = wait_for_end(timeout)) std::rethrow_exception(error);
  return true;
}

}  // namespace mccl
