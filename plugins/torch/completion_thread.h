// Runs the ends of operations: copies back into views, completes Works and Futures. Callbacks of
// Futures may run Python, call collectives, or block; so none of this happens on a thread that
// moves data.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

namespace mccl {

// One thread runs the tasks in their order. A task may wait for what a later one completes: when
// nobody has taken a waiting task for a while, another thread is started.
class CompletionThread {
 public:
  CompletionThread();
  // Runs what was posted, then ends. The caller must not hold the interpreter lock, which a
  // callback may want. From a task of its own that thread is let go instead: it runs the rest after
  // that task and ends by itself.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // Any thread, does not block.
  void post(std::function<void()> task);

 private:
  struct Queue;
  static void run(Queue& queue);
  static void run_one(Queue& queue, std::unique_lock<std::mutex>& lock);
  static void help(Queue& queue);
  static void watch(const std::shared_ptr<Queue>& queue);

  std::shared_ptr<Queue> queue_;  // shared with the threads, of which one may outlive this object
};

}  // namespace mccl
