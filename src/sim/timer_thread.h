// A thread that is asked to do one thing soon after times that others name.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace mccl::sim {

class TimerThread {
 public:
  // Calls `action` on a thread of its own, soon after each time that was asked for.
  explicit TimerThread(std::function<void()> action);
  // What is not due yet is not done any more.
  ~TimerThread();
  TimerThread(const TimerThread&) = delete;
  TimerThread& operator=(const TimerThread&) = delete;

  // A time of SystemClock. Any thread, also from within the action. Does not block.
  void arm(TimeNs time_ns);

 private:
  void loop();

  const std::function<void()> action_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TimeNs due_ns_ = kNever;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses what is above
};

}  // namespace mccl::sim
