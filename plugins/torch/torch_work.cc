#include "torch_work.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <exception>
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

TorchWork::TorchWork(int rank, c10d::OpType type, const char* title, CallMemory memory,
                     TakeInterrupt take_interrupt, CompletionThread& completions,
                     bool completes_in_wait)
    : c10d::Work(rank, type, title, memory.inputs),
      memory_(std::move(memory)),
      has_end_(memory_.finish != nullptr || recordFunctionEndCallback_ != nullptr),
      completions_(completions),
      completes_in_wait_(completes_in_wait),
      take_interrupt_(std::move(take_interrupt)),
      future_(
          c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {
}

bool TorchWork::claim() {
  const std::lock_guard lock(mutex_);
  const bool is_mine = is_over_ && !is_claimed_;
  is_claimed_ |= is_mine;
  return is_mine;
}

void TorchWork::on_operation_over(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    over_status_ = status;
    if (completes_in_wait_) return;
  }
  auto self = c10::intrusive_ptr<TorchWork>::reclaim_copy(this);
  completions_.post([self = std::move(self)] {
    if (self->claim()) self->complete();
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

void TorchWork::complete() {
  std::exception_ptr error = to_exception(over_status_);
  if (error == nullptr) {
    try {
      // Also into tensors of inference mode, which only its own threads may write otherwise.
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      if (memory_.finish) memory_.finish();
    } catch (...) {
      error = std::current_exception();
    }
  }
  memory_.inputs.clear();
  memory_.others.clear();
  memory_.storages.clear();
  memory_.finish = {};
  finish(error);  // first: a callback of the Future may wait for this very work
  if (error != nullptr) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(memory_.outputs));
  }
}

bool TorchWork::completes_in_wait() {
  const std::lock_guard lock(mutex_);
  return completes_in_wait_;
}

bool TorchWork::isCompleted() {
  if (!has_end_) return work_->is_done();
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool TorchWork::isSuccess() const {
  return work_->is_done() && work_->status().is_ok();
}

bool TorchWork::wait(std::chrono::milliseconds timeout) {
  const int64_t timeout_ns = timeout == kNoTimeout ? -1 : std::chrono::nanoseconds(timeout).count();
  std::exception_ptr interrupt;
  const Status status = work_->wait(timeout_ns, [&] {
    interrupt = take_interrupt_();
    return interrupt != nullptr;
  });
  // Who needs the end does not queue behind other completions, or behind itself in a callback.
  if (work_->is_done() && (has_end_ || completes_in_wait()) && claim()) complete();
  // Also when the work was done meanwhile: the signal has been taken and would be lost.
  if (interrupt != nullptr) std::rethrow_exception(interrupt);
  throw_unless_ok(status);
  if (!has_end_) return true;
  // The data is here; another thread is doing the rest.
  std::unique_lock lock(mutex_);
  cv_.wait(lock, [this] { return completed_; });
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

}  // namespace mccl
