// When a port of a fixed rate is free: whole nanoseconds plus a fraction of one, so that many small
// segments take exactly as long as one large one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/clock.h"

namespace mccl::sim {

class Port {
 public:
  // The product bytes * 10^9 stays below 2^63 for segments up to this size.
  static constexpr size_t kSegmentBytesMax = size_t{1} << 32;

  explicit Port(int64_t bytes_per_second) : rate_(static_cast<uint64_t>(bytes_per_second)) {
    MCCL_CHECK_LT(0, bytes_per_second);
  }

  // The first whole nanosecond at which everything reserved so far is through.
  TimeNs free_at() const { return whole_ns_ + (fraction_ > 0 ? 1 : 0); }

  // Lets a segment that is there at `now` pass behind all earlier ones; returns when it is through.
  // A segment that comes in the nanosecond in which the port becomes free starts at the exact
  // moment inside it: rounding never adds up.
  TimeNs pass(TimeNs now, size_t segment_bytes) {
    MCCL_CHECK_LE(segment_bytes, kSegmentBytesMax);
    if (now > free_at()) {
      whole_ns_ = now;
      fraction_ = 0;
    }
    const uint64_t scaled = segment_bytes * uint64_t{kNsPerSecond} + fraction_;
    whole_ns_ += static_cast<TimeNs>(scaled / rate_);
    fraction_ = scaled % rate_;
    return free_at();
  }

 private:
  uint64_t rate_;  // bytes per second
  TimeNs whole_ns_ = 0;
  uint64_t fraction_ = 0;  // in units of 1 ns / rate_
};

}  // namespace mccl::sim
