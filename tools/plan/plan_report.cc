#include "plan/plan_report.h"

#include <limits>

#include "planner/explain.h"

namespace mccl {
namespace {

SizeReport report_size(const PlanTable& table, Collective collective, int64_t bytes) {
  const Explanation explanation = explain(table, collective, bytes);
  SizeReport report{.bytes = bytes, .rejection = explanation.rejection, .rows = {}};
  for (const CandidateExplanation& candidate : explanation.candidates) {
    PlanRow row{.algorithm = candidate.algorithm,
                .is_chosen = candidate.is_chosen,
                .has_cost = candidate.has_cost,
                .verdict = candidate.verdict};
    if (candidate.has_cost) row.time_ns = static_cast<double>(candidate.cost.total_ns);
    if (row.time_ns > 0)
      row.bus_bytes_per_second =
          bus_bytes_per_second(collective, table.rank_count, bytes, row.time_ns);
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace

Result<PlanReport> make_plan_report(const LinkChoice& link, Collective collective, int rank_count,
                                    const std::vector<int64_t>& sizes, const std::string& algo) {
  PlannerSettings settings = link.settings;
  settings.algo = algo;
  const Result<PlanTable> table = build_plan_table(topology_of(link, rank_count), settings);
  if (!table.is_ok()) return table.status();
  PlanReport report{.collective = collective,
                    .rank_count = rank_count,
                    .link = link,
                    .sizes = {},
                    .crossovers = {}};
  for (const int64_t bytes : sizes)
    report.sizes.push_back(report_size(table.value(), collective, bytes));
  for (const CollectivePlan& plan : table.value().collectives) {
    if (plan.collective != collective) continue;
    for (const PlanWindow& window : plan.windows)
      report.crossovers.push_back({window.begin_bytes, window.entry.algorithm});
  }
  return report;
}

RingLimit ring_limit(const LinkCosts& costs, int64_t bytes, int64_t slice_bytes) {
  const double in_flight_bytes =
      static_cast<double>(costs.alpha_ns) * 1e-9 * static_cast<double>(costs.bytes_per_second);
  const double size = static_cast<double>(bytes);
  return {.bytes = bytes,
          .rank_count = in_flight_bytes > 0 ? size / in_flight_bytes
                                            : std::numeric_limits<double>::infinity(),
          .rank_count_with_slices = size / (in_flight_bytes + static_cast<double>(slice_bytes))};
}

}  // namespace mccl
