// Where Works and Futures complete: callbacks of a Future may run Python, which must never happen
// on the engine's thread or under its token.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace mccl {

class CompletionThread {
 public:
  CompletionThread() : thread_([this] { run(); }) {}
  // Runs what was posted, then ends. The caller must not hold the interpreter lock, which a
  // callback may want.
  ~CompletionThread();
  CompletionThread(const CompletionThread&) = delete;
  CompletionThread& operator=(const CompletionThread&) = delete;

  // Any thread, does not block.
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopping_ = false;
  std::thread thread_;  // last: starts when the rest exists
};

}  // namespace mccl
