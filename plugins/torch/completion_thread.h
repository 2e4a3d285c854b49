// Runs the ends of operations: copies back into views, completes Works and Futures. Callbacks of
// Futures may run Python, call collectives, or block; so none of this happens on a thread that
// moves data.
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace mccl {

class CompletionThread {
 public:
  CompletionThread();
  // Runs what was posted, then ends. The caller must not hold the interpreter lock, which a
  // callback may want. From a task of its own the thread is let go instead: it runs the rest after
  // that task and ends by itself.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // Any thread, does not block.
  void post(std::function<void()> task);

 private:
  struct Queue;
  static void run(Queue& queue);

  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace mccl
