#include "work_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace mccl {

using c10::ivalue::Future;

bool WorkGroup::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isCompleted(); });
}

bool WorkGroup::isSuccess() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr WorkGroup::exception() const {
  for (const auto& part : parts_)
    if (const std::exception_ptr error = part->exception()) return error;
  return nullptr;
}

std::vector<at::Tensor> WorkGroup::result() {
  std::vector<at::Tensor> outputs;
  for (const auto& part : parts_)
    for (at::Tensor& output : part->result()) outputs.push_back(std::move(output));
  return outputs;
}

int WorkGroup::sourceRank() const {
  for (const auto& part : parts_)
    if (part->sourceRank() >= 0) return part->sourceRank();
  return -1;
}

bool WorkGroup::wait(std::chrono::milliseconds timeout) {
  std::exception_ptr first;
  for (const auto& part : parts_) {
    const std::exception_ptr error = part->wait_for_end(timeout);
    if (first == nullptr) first = error;
  }
  if (first != nullptr) std::rethrow_exception(first);
  return true;
}

c10::intrusive_ptr<Future> WorkGroup::getFuture() {
  {
    const std::lock_guard lock(mutex_);
    if (future_ != nullptr) return future_;
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
  }
  // The callbacks run on whichever thread completes a part, or here; the last one completes ours.
  struct Progress {
    std::atomic<size_t> left;
    std::vector<c10::intrusive_ptr<Future>> parts;
  };
  auto progress = std::make_shared<Progress>();
  progress->left = parts_.size();
  for (const auto& part : parts_) progress->parts.push_back(part->getFuture());
  const auto complete = [future = future_, progress] {
    std::vector<at::Tensor> outputs;
    for (const auto& part : progress->parts) {
      if (part->hasError()) return future->setError(part->exception_ptr());
      for (const at::Tensor& output : part->value().toTensorVector()) outputs.push_back(output);
    }
    future->markCompleted(c10::IValue(std::move(outputs)));
  };
  if (parts_.empty()) complete();
  for (const auto& part : progress->parts)
    part->addCallback([progress, complete](Future&) {
      if (progress->left.fetch_sub(1) == 1) complete();
    });
  return future_;
}

uint64_t WorkGroup::getSequencenumber() const {
  return parts_.empty() ? 0 : parts_.back()->getSequencenumber();
}

}  // namespace mccl
