#include "planner/plan_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "planner/plan_table_text.h"

namespace mccl {

Result<const PlanEntry*> find_sizeless_entry(const PlanTable& table, Collective collective) {
  return find_entry(table, collective, kBytesUnlimited - 1);
}

Result<const PlanEntry*> find_entry(const PlanTable& table, Collective collective, int64_t bytes) {
  const Result<const PlanWindow*> window = find_window(table, collective, bytes);
  if (!window.is_ok()) return window.status();
  return &window.value()->entry;
}

Result<const PlanWindow*> find_window(const PlanTable& table, Collective collective,
                                      int64_t bytes) {
  MCCL_CHECK_LE(0, bytes);
  for (const CollectivePlan& plan : table.collectives) {
    if (plan.collective != collective) continue;
    if (plan.windows.empty()) return Status(StatusCode::Unsupported, plan.rejection);
    const auto after = std::upper_bound(
        plan.windows.begin(), plan.windows.end(), bytes,
        [](int64_t value, const PlanWindow& window) { return value < window.begin_bytes; });
    MCCL_CHECK(after != plan.windows.begin());
    return &*std::prev(after);
  }
  return Status(StatusCode::Unsupported,
                fmt::format("no program for {}", collective_name(collective)));
}

uint32_t fnv1a(std::string_view text) {
  uint32_t hash = 2166136261U;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 16777619U;
  }
  return hash;
}

uint32_t plan_hash(const PlanEntry& entry, Collective collective, int rank_count) {
  return fnv1a(fmt::format("{} {} {} {} {} {} {}", collective_name(collective), rank_count,
                           entry.algorithm, entry.window_bytes, entry.slice_bytes,
                           entry.frame_bytes, entry.channel_sets));
}

}  // namespace mccl
