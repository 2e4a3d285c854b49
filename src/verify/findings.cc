#include "verify/findings.h"

namespace mccl::judge {

void FindingList::add(Rule rule, const FindingPlace& place, std::string text,
                      std::vector<TraceLine> trace) {
  ++report_count_;
  if (is_full()) return;
  for (const Finding& finding : findings_)
    if (finding.rule == rule && finding.text == text) return;
  Finding& added = findings_.emplace_back(Finding{rule, in_place_, std::move(text), {}, place});
  for (TraceLine& line : trace) {
    added.trace.push_back(std::move(line.text));
    added.trace_places.push_back(line.place);
  }
}

std::string lane_name(int rank, int lane) {
  return "rank " + std::to_string(rank) + " lane " + std::to_string(lane);
}

std::string step_name(int rank, int lane, int step) {
  return lane_name(rank, lane) + " step " + std::to_string(step);
}

std::string counted(int64_t count, const char* noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace mccl::judge
