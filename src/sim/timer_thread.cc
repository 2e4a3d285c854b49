#include "sim/timer_thread.h"

#include <chrono>
#include <utility>

#include "base/thread_name.h"

namespace mccl::sim {

TimerThread::TimerThread(std::function<void()> action)
    : action_(std::move(action)), thread_([this] { loop(); }) {}

TimerThread::~TimerThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TimerThread::arm(TimeNs time_ns) {
  {
    const std::lock_guard lock(mutex_);
    if (time_ns >= due_ns_) return;
    due_ns_ = time_ns;
  }
  changed_.notify_one();
}

void TimerThread::loop() {
  name_this_thread("sim-timer");
  const SystemClock clock;
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (due_ns_ == kNever) {
      changed_.wait(lock);
      continue;
    }
    const TimeNs left_ns = due_ns_ - clock.now();
    if (left_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left_ns));
      continue;
    }
    due_ns_ = kNever;
    lock.unlock();
    action_();
    lock.lock();
  }
}

}  // namespace mccl::sim
