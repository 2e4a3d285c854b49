// A simulated device in real time: a thread that executes it. For tests and tools; virtual time
// needs none.
#pragma once

#include "base/clock.h"
#include "sim/device.h"
#include "sim/timer_thread.h"

namespace mccl::sim {

class DeviceThread {
 public:
  explicit DeviceThread(const DeviceOptions& options)
      : device_(options, clock_, [this](TimeNs time_ns) { timer_.arm(time_ns); }),
        timer_([this] { device_.run(); }) {}
  // When destroyed, commands that have not run are dropped. No HandOff of the device is used any
  // more.
  DeviceThread(const DeviceThread&) = delete;
  DeviceThread& operator=(const DeviceThread&) = delete;

  Device& device() { return device_; }
  const Clock& clock() const { return clock_; }

 private:
  SystemClock clock_;
  Device device_;
  TimerThread timer_;  // last: it runs the device
};

}  // namespace mccl::sim
