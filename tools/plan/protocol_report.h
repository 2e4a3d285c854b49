// What `mccl plan --protocol` prints: every program by the model of step_model.h, size by size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan_plot.h"
#include "plan/step_model.h"
#include "verb/link_options.h"

namespace mccl {

struct ProtocolReport {
  Collective collective = Collective::AllReduce;
  int rank_count = 0;
  LinkChoice link;
  std::vector<int64_t> sizes;
  std::vector<StepLine> lines;
};

// Errors as of make_step_lines().
Result<ProtocolReport> make_protocol_report(const LinkChoice& link, Collective collective,
                                            int rank_count, const std::vector<int64_t>& sizes,
                                            const std::vector<ProtocolChoice>& choices);

// The line that takes the least time for `bytes`; the earlier one of equals.
size_t fastest_line(const ProtocolReport& report, int64_t bytes);

// A table and the crossovers, each line ended; the fastest of a size comes first.
std::string write_protocol_report(const ProtocolReport& report);
// The same as one JSON object.
std::string write_protocol_report_json(const ProtocolReport& report);
// One curve per program.
std::vector<PlotCurve> protocol_curves(const ProtocolReport& report);

}  // namespace mccl
