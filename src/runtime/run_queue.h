// Whatever may be able to go on: lanes of operations, transfers of point-to-point messages.
#pragma once

#include <cstdint>
#include <vector>

#include "transport/stream.h"

namespace mccl {

// A state machine that the engine drives. wake() puts it into its queue, at most once.
class Runnable : public StreamOwner {
 public:
  // Goes on as far as is possible now; returns the number of steps made.
  virtual uint64_t advance() = 0;
  virtual ~Runnable() = default;

 private:
  friend class RunQueue;
  bool is_queued_ = false;
};

class RunQueue {
 public:
  void push(Runnable& one) {
    if (one.is_queued_) return;
    one.is_queued_ = true;
    waiting_.push_back(&one);
  }

  // Runs until nobody is left. Returns whether anyone made a step.
  bool run() {
    const uint64_t before = steps_;
    while (!waiting_.empty()) {
      running_.swap(waiting_);
      for (Runnable* one : running_) {
        one->is_queued_ = false;
        steps_ += one->advance();
      }
      running_.clear();
    }
    return steps_ != before;
  }

  bool is_empty() const { return waiting_.empty(); }
  // Takes out one that is about to be destroyed. Not while it runs.
  void remove(const Runnable& one) {
    if (one.is_queued_) std::erase(waiting_, &one);
  }
  // Steps since the queue was made: what a program "has done", for tests and counters.
  uint64_t steps() const { return steps_; }

 private:
  std::vector<Runnable*> waiting_;
  std::vector<Runnable*> running_;
  uint64_t steps_ = 0;
};

}  // namespace mccl
