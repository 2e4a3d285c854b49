// A simulated device in real time: a thread that executes it. For tests and tools; virtual time
// needs none.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "sim/device.h"

namespace mccl::sim {

class DeviceThread {
 public:
  explicit DeviceThread(const DeviceOptions& options);
  // Commands that have not run are dropped. No HandOff of the device is used any more.
  ~DeviceThread();
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  Device& device() { return *device_; }
  const Clock& clock() const { return clock_; }

 private:
  void arm(TimeNs time_ns);
  void execute();

  SystemClock clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  TimeNs due_ns_ = kNever;
  bool is_ending_ = false;
  std::unique_ptr<Device> device_;
  std::thread thread_;
};

}  // namespace mccl::sim
