#include "verify/findings.h"

namespace mccl::judge {

void FindingList::add(Rule rule, std::string text, std::vector<std::string> trace) {
  ++report_count_;
  if (is_full()) return;
  if (rule == Rule::Trees && tree_count_++ >= kTreeFindingsMax) return;
  for (const Finding& finding : findings_)
    if (finding.rule == rule && finding.text == text) return;
  findings_.push_back({rule, in_place_, std::move(text), std::move(trace)});
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
