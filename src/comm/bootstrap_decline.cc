// What a rank does at a meeting that it cannot join.
#include <fmt/format.h>

#include <algorithm>

#include "comm/bootstrap.h"

namespace mccl {
namespace {

constexpr TimeNs kDeclineNs = 2 * kNsPerSecond;
constexpr TimeNs kLookNs = 200 * kNsPerMs;

}  // namespace

void Bootstrap::decline(const RankRecord& record, uint64_t meeting, const Status& reason) {
  own_ = record;
  const Status named(reason.code(),
                     name_of(options_.rank, own_) + " cannot take part: " + reason.message(),
                     options_.rank, -1);
  deadline_ = std::min(deadline_, deadline_after(clock_.now(), kDeclineNs));
  if (options_.rank == 0) {
    meeting_ = fmt::format("{:016x}", meeting);
    meeting_number_ = meeting;
    (void)spread(named);
    (void)set(key_of_meeting(), meeting_);
    return;
  }
  while (clock_.now() < deadline_ && !is_interrupted()) {
    const Result<std::optional<std::string>> called =
        get(key_of_meeting(), std::clamp<TimeNs>(deadline_ - clock_.now(), 0, kLookNs));
    if (!called.is_ok()) return;
    if (called.value().has_value() && parse_meeting(*called.value()).is_ok()) {
      // One that is over is of an earlier run.
      const Result<std::optional<std::string>> blob = get(key_of_blob(), 0);
      if (!blob.is_ok()) return;
      if (!blob.value().has_value()) {
        (void)spread(named);
        return;
      }
    }
    pause();
  }
}

}  // namespace mccl
