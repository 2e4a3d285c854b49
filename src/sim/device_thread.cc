#include "sim/device_thread.h"

#include <algorithm>
#include <chrono>

#include "base/thread_name.h"

namespace mccl::sim {

DeviceThread::DeviceThread(const DeviceOptions& options)
    : device_(std::make_unique<Device>(options, clock_, [this](TimeNs time_ns) { arm(time_ns); })),
      thread_([this] { execute(); }) {}

DeviceThread::~DeviceThread() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void DeviceThread::arm(TimeNs time_ns) {
  const std::lock_guard lock(mutex_);
  due_ns_ = std::min(due_ns_, time_ns);
  changed_.notify_one();
}

void DeviceThread::execute() {
  name_this_thread("sim-device");
  std::unique_lock lock(mutex_);
  while (!is_ending_) {
    if (due_ns_ == kNever) {
      changed_.wait(lock);
      continue;
    }
    const TimeNs left_ns = due_ns_ - clock_.now();
    if (left_ns > 0) {
      changed_.wait_for(lock, std::chrono::nanoseconds(left_ns));
      continue;
    }
    due_ns_ = kNever;
    lock.unlock();
    device_->run();
    lock.lock();
  }
}

}  // namespace mccl::sim
