// The time of day, for what people read: it jumps when somebody sets the clock.
#pragma once

#include <string>

#include "base/clock.h"

namespace mccl {

// Nanoseconds since 1970.
TimeNs read_wall_time();
// "2026-11-30T21:00:11.123456Z".
std::string write_wall_time(TimeNs wall_time);

}  // namespace mccl
