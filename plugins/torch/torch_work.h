// c10d's Work over ours.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "completion_thread.h"
#include "mccl/communicator.h"

namespace mccl {

// A result that was received into memory of ours and still has to be copied into the caller's tensor.
struct CopyBack {
  at::Tensor from;
  at::Tensor to;
};

// The exception that Python sees for a Status: ValueError, DistBackendError, DistNetworkError.
std::exception_ptr to_exception(const Status& status);
// Throws it unless the status is ok.
void throw_unless_ok(const Status& status);

class TorchWork final : public c10d::Work {
 public:
  TorchWork(int rank, c10d::OpType type, const char* title, std::vector<at::Tensor> inputs,
            std::vector<at::Tensor> outputs, std::vector<CopyBack> copies,
            std::function<bool()> is_interrupted);

  // The work that this object stands for; called once, right after it was posted.
  void set_work(std::shared_ptr<mccl::Work> work) { work_ = std::move(work); }

  // From the completion thread: copies back, completes the Future, drops the tensors.
  void complete(const Status& status);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override { wait(kNoTimeout); }
  // Blocks without the interpreter lock (the binding releases it). Throws the operation's error.
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  uint64_t getSequencenumber() const override { return work_ ? work_->sequence() : 0; }

 private:
  std::shared_ptr<mccl::Work> work_;
  std::vector<at::Tensor> inputs_;  // kept alive until completion
  std::vector<at::Tensor> outputs_;
  std::vector<CopyBack> copies_;
  bool has_copies_;
  std::function<bool()> is_interrupted_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace mccl
