#include "base/clock.h"

#include <chrono>
#include <ctime>

#include "base/wall_time.h"

namespace mccl {
namespace {

template <typename Time>
TimeNs nanoseconds_of(Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

TimeNs SystemClock::now() const {
  return nanoseconds_of(std::chrono::steady_clock::now());
}

TimeNs read_wall_time() {
  return nanoseconds_of(std::chrono::system_clock::now());
}

std::string write_wall_time(TimeNs wall_time) {
  const std::time_t seconds = static_cast<std::time_t>(wall_time / kNsPerSecond);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32] = {};
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S.", &parts);
  const int64_t microseconds = wall_time % kNsPerSecond / kNsPerUs;
  return std::string(text, length) + std::to_string(1'000'000 + microseconds).substr(1) + "Z";
}

}  // namespace mccl
