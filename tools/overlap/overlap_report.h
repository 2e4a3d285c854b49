// A step timed in several ways, and what follows from the times.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "overlap/overlap_run.h"

namespace mccl {

struct OverlapReport {
  int rank_count = 0;
  std::map<StepMode, StepReport> steps;

  TimeNs step_ns(StepMode mode) const { return steps.at(mode).step_ns; }
  // The share of the communication that a way of doing the step hides: 1 when the step is no longer
  // than its compute, 0 when it is as long as both one after the other.
  double hidden_share(StepMode mode) const;
  // Compute alone over the step.
  double efficiency(StepMode mode) const;
};

// The largest share that can be hidden: the last of equal buckets begins when the compute ends.
double hidden_bound(const StepRequest& request);

Result<OverlapReport> make_overlap_report(const StepRequest& request,
                                          const std::vector<StepMode>& modes);

// The steps as horizontal bars, compute and exposed communication apart, as an SVG picture.
std::string draw_svg(const StepRequest& request, const std::vector<OverlapReport>& reports);

}  // namespace mccl
