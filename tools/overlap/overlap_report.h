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

// One step of one way: run_step, or run_real_step.
using StepRunner = Result<StepReport> (*)(const StepRequest& request, StepMode mode);

Result<OverlapReport> make_overlap_report(const StepRequest& request,
                                          const std::vector<StepMode>& modes,
                                          StepRunner run = &run_step);

// The steps as horizontal bars, compute and exposed communication apart, as an SVG picture. `title`
// says what was run, and how.
std::string draw_svg(const std::string& title, const std::vector<OverlapReport>& reports);
// The buckets of one step: when a bucket's kernels had finished and when it was averaged, as lines
// of text, and how many were averaged before the compute ended.
std::string draw_timeline(const StepReport& step, int width);

}  // namespace mccl
