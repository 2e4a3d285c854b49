// One Work for several that are under way: a coalesced call, or what was called between
// startCoalescing() and endCoalescing().
#pragma once

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "torch_work.h"

namespace mccl {

class WorkGroup final : public c10d::Work {
 public:
  WorkGroup(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<TorchWork>> parts)
      : c10d::Work(rank, type), parts_(std::move(parts)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;  // the first part's that has one
  std::vector<at::Tensor> result() override;      // all parts', one after the other
  int sourceRank() const override;                // the first part's that has one
  void synchronize() override { wait(kNoTimeout); }
  // Throws the first part's error that has one, after all are over; at once what
  // ends the wait alone: a signal, or `timeout`, which is each part's limit.
  bool wait(std::chrono::milliseconds timeout) override;
  // The list of all outputs.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override;  // of the last part

 private:
  std::vector<c10::intrusive_ptr<TorchWork>> parts_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // under mutex_; made when asked for
};

}  // namespace mccl
