// Time is an argument. Only implementations of Clock read it; nothing above `wire` and `base/clock`
// blocks, sleeps or asks for the time by itself.
#pragma once

#include <cstdint>

namespace mccl {

// Nanoseconds since an arbitrary origin that is fixed for the life of the clock.
using TimeNs = int64_t;

constexpr TimeNs kNever = INT64_MAX;
constexpr TimeNs kNsPerUs = 1'000;
constexpr TimeNs kNsPerMs = 1'000'000;
constexpr TimeNs kNsPerSecond = 1'000'000'000;

// `timeout_ns` (not negative) after `now`; kNever when that is beyond the end of time.
constexpr TimeNs deadline_after(TimeNs now, TimeNs timeout_ns) {
  return timeout_ns > kNever - now ? kNever : now + timeout_ns;
}

// Implementers guarantee: now() never goes back. Any thread may call it.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs now() const = 0;
};

// CLOCK_MONOTONIC.
class SystemClock final : public Clock {
 public:
  TimeNs now() const override;
};

// Moves only when told to.
class ManualClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  void advance_to(TimeNs time) {
    if (time > now_) now_ = time;
  }

 private:
  TimeNs now_ = 0;
};

}  // namespace mccl
