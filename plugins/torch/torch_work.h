// c10d's Work over ours.
#pragma once

#include <ATen/core/ivalue.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "completion_thread.h"
#include "device_works.h"
#include "mccl/communicator.h"
#include "tensor_device.h"

namespace mccl {

// What fills and empties the stand-ins of a call.
struct StagedCopies {
  std::vector<std::function<void()>> in;
  std::vector<std::function<void()>> out;
};

// The tensors of a call.
struct CallMemory {
  std::vector<at::Tensor> inputs;  // the caller's, shown in profiles
  std::vector<at::Tensor> others;  // the caller's outputs and memory of ours
  // A tensor may be given other memory while the call runs (tensor.data = ...): this keeps the
  // memory that the call has.
  std::vector<c10::Storage> storages;
  std::shared_ptr<TensorDevice> device;  // of the tensors; null: the CPU
  // Of tensors in private storage: StagedCall::await_returned.
  std::vector<std::function<bool(std::function<void()>)>> returns;
  // Shared with the engine, which may let go of it later than all others: emptied, so that tensors
  // are dropped with the rest.
  std::shared_ptr<StagedCopies> copies;
  std::vector<at::Tensor> outputs;  // the value of the Future
  // When the operation is over: makes the outputs out of what came. May be empty.
  std::function<void()> finish;
};

// The exception that Python sees for a Status: ValueError, DistBackendError, DistNetworkError.
std::exception_ptr to_exception(const Status& status);
// Throws it unless the status is ok.
void throw_unless_ok(const Status& status);

// Of a time limit of torch, in nanoseconds; what they cannot count, and datetime.timedelta.max, is
// no limit (INT64_MAX). ValueError for a negative one.
int64_t limit_ns(std::chrono::milliseconds limit);

// Takes the exception that is to end a wait early (Ctrl-C); null when there is none.
using TakeInterrupt = std::function<std::exception_ptr()>;

class TorchWork final : public c10d::Work {
 public:
  // `completions` outlives the work's operation. With `completes_in_wait` the caller is expected to
  // wait() next, and that thread completes the work itself: waking another thread for it would cost
  // more than a small operation does. `device_works` is of works on memory of a device, else null.
  TorchWork(int rank, c10d::OpType type, const char* title, CallMemory memory,
            TakeInterrupt take_interrupt, CompletionThread& completions, bool completes_in_wait,
            std::shared_ptr<DeviceWorks> device_works);
  ~TorchWork() override { drop_all_but_outputs(); }

  // The work that this object stands for; called once, right after it was posted, by the thread
  // that made this object.
  void set_work(std::shared_ptr<mccl::Work> work);

  // From the engine, once: the operation is over. `reference` is the engine's: it may be the last,
  // and tensors of Python are not to be dropped on a thread that moves data.
  static void on_operation_over(c10::intrusive_ptr<TorchWork> reference, const Status& status);

  bool isCompleted() override;
  bool isSuccess() const override;
  // The sender's group rank, of a receive that is done.
  int sourceRank() const override { return work_ ? work_->source_rank() : -1; }
  std::vector<at::Tensor> result() override { return memory_.outputs; }
  void synchronize() override { wait(kNoTimeout); }
  // Blocks without the interpreter lock (the binding releases it). Throws the operation's error.
  // Without a limit, on memory of a device and after an asynchronous call, the device's stream
  // waits and the host goes on; an error is then thrown by the next call.
  bool wait(std::chrono::milliseconds timeout) override;
  // As wait(), but gives the operation's error back, null for none; throws only what ended the wait
  // and not the operation: the limit, or a signal.
  std::exception_ptr wait_for_end(std::chrono::milliseconds timeout);
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return work_ ? work_->sequence() : 0; }

 private:
  // Whether this thread is the one that completes the work; true once, after the operation is over.
  bool claim();
  void drop_all_but_outputs();
  // Blocks until results that a device copies back are there. DistBackendError after half a minute.
  void wait_until_returned();
  // Whether the device's stream waits for the work, which is not over.
  bool is_left_to_stream();
  // This thread holds a reference for now, and then takes over the engine's, if that is left here.
  void begin_holding();
  void end_holding();
  // Completes the Future, drops all tensors but the outputs. By whoever claimed;
  // callbacks may run Python.
  void complete();

  std::shared_ptr<mccl::Work> work_;
  CallMemory memory_;
  // Something is left to do when the operation is over that wait() has to see done: outputs to
  // make, a profiler's event to end.
  bool has_end_;
  CompletionThread& completions_;
  const bool is_async_;  // the caller did not say that it waits next
  // Under mutex_: who completes.
  bool completes_in_wait_;
  int holder_count_ = 1;                       // threads that are posting it or waiting for it
  c10::intrusive_ptr<TorchWork> engines_own_;  // left by the engine to the last of them
  bool is_over_ = false;
  bool is_left_to_stream_ = false;
  bool is_claimed_ = false;
  Status over_status_;
  TakeInterrupt take_interrupt_;
  const std::shared_ptr<DeviceWorks> device_works_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace mccl
