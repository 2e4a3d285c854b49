#include "transport/refusals.h"

#include <numeric>

namespace mccl {
namespace {

constexpr size_t kHostsMax = 256;

}  // namespace

void Refusals::note(Refusal refusal, bool has_bytes, const std::string& host,
                    const std::string& reason) {
  ++counts_[static_cast<size_t>(refusal)];
  const bool is_silent = refusal == Refusal::ClosedEarly && !has_bytes;
  if (!notice_ || is_silent || refusal == Refusal::Duplicate || hosts_.contains(host)) return;
  if (hosts_.size() < kHostsMax) {
    hosts_.insert(host);
    notice_("refused a connection from " + host + ": " + reason +
            "; more from there are counted and not told");
  } else if (!has_told_of_more_) {
    has_told_of_more_ = true;
    notice_("refused a connection from " + host + ": " + reason +
            "; more from other addresses than the " + std::to_string(kHostsMax) +
            " named are counted and not told");
  }
}

uint64_t Refusals::stranger_count() const {
  return std::accumulate(counts_.begin(), counts_.end(), uint64_t{0}) - count(Refusal::Duplicate);
}

}  // namespace mccl
