#include "transport/peer_silence.h"

#include <algorithm>

namespace mccl {
namespace {

// Linux takes no more.
constexpr int64_t kKeepSecondsMax = 32'767;
constexpr int64_t kKeepCountMax = 127;
constexpr int64_t kConnectTriesMax = 127;
constexpr int64_t kRetransmitIntervalMaxMs = 120'000;

// Linux gives a connection up after 15 repetitions, of which the first few come fast: this many
// intervals are more than the timeout, so that it is the watch that decides.
constexpr int64_t kRetransmitIntervals = 8;

// Three calls left out: the process was stopped, or nothing was awaited.
constexpr TimeNs kCheckGapMaxNs = 3 * kNsPerSecond;

constexpr int64_t divide_up(int64_t dividend, int64_t divisor) {
  return dividend / divisor + (dividend % divisor != 0 ? 1 : 0);
}

}  // namespace

SilenceTimers silence_timers(TimeNs peer_timeout_ns) {
  const TimeNs timeout_ns = std::max(peer_timeout_ns, kNsPerSecond);
  const int64_t timeout_s = divide_up(timeout_ns, kNsPerSecond);
  // Half of the time is for probes, but not more of them than the kernel counts.
  const int64_t idle_s =
      std::clamp(std::max(timeout_ns / 2 / kNsPerSecond, timeout_s - kKeepCountMax), int64_t{1},
                 kKeepSecondsMax);
  const int64_t probed_s = std::max<int64_t>(timeout_s - idle_s, 1);
  const int64_t interval_s = std::min(divide_up(probed_s, kKeepCountMax), kKeepSecondsMax);
  const int64_t interval_max_ms = std::clamp(timeout_ns / kRetransmitIntervals / kNsPerMs,
                                             int64_t{1'000}, kRetransmitIntervalMaxMs);
  return {.keep_idle_s = static_cast<int>(idle_s),
          .keep_interval_s = static_cast<int>(interval_s),
          .keep_count = static_cast<int>(std::min(divide_up(probed_s, interval_s), kKeepCountMax)),
          .connect_tries = static_cast<int>(std::min(timeout_s + 1, kConnectTriesMax)),
          .retransmit_interval_max_ms = static_cast<int>(interval_max_ms)};
}

SilenceWatch::SilenceWatch(TimeNs peer_timeout_ns)
    : timeout_ns_(std::max(peer_timeout_ns, kNsPerSecond)),
      asked_ns_min_(std::min(timeout_ns_ / 2, int64_t{kKeepCountMax} * kNsPerSecond)) {}

// An answer in between needs no care: the silence is then as young.
bool SilenceWatch::is_lost(const PeerSilence& peer, TimeNs now) {
  const bool has_looked = last_check_ != kNever && now - last_check_ <= kCheckGapMaxNs;
  if (!peer.is_asked) {
    asked_since_ = kNever;
  } else if (!has_looked || asked_since_ == kNever) {
    asked_since_ = now;
  }
  last_check_ = now;
  return peer.is_asked && peer.silent_ns >= timeout_ns_ && now - asked_since_ >= asked_ns_min_;
}

TimeNs SilenceWatch::connecting_ns(TimeNs now) {
  if (connecting_since_ == kNever) connecting_since_ = now;
  return now - connecting_since_;
}

}  // namespace mccl
