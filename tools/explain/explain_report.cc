#include "explain/explain_report.h"

#include <fmt/format.h>

#include "comm/program_library.h"
#include "ir/collective.h"
#include "planner/planner.h"

namespace mccl {
namespace {

// Those of the link, and the rules of the config.
PlannerSettings settings_of(const ExplainRequest& request) {
  PlannerSettings settings = planner_settings(request.config);
  settings.profile = request.link.settings.profile;
  settings.costs = request.link.settings.costs;
  settings.slice_bytes = request.link.settings.slice_bytes;
  return settings;
}

}  // namespace

Result<ExplainReport> make_explain_report(const ExplainRequest& request) {
  const auto element_bytes = static_cast<int64_t>(dtype_bytes(request.dtype));
  const int64_t blocks = size_block_count(request.collective, request.rank_count);
  if (request.bytes % (element_bytes * blocks) != 0)
    return Status(
        StatusCode::InvalidArgument,
        fmt::format("--bytes {} is no whole number of {} elements for {} block{}", request.bytes,
                    dtype_name(request.dtype), blocks, blocks == 1 ? "" : "s"));
  ProgramLibrary library(request.config);
  ExplainReport report{.explanation = {}, .notices = library.notices()};
  MCCL_RETURN_IF_ERROR(library.prove(request.rank_count, &report.notices));
  const Result<PlanTable> table = build_plan_table(topology_of(request.link, request.rank_count),
                                                   settings_of(request), library.algorithms());
  if (!table.is_ok()) return table.status();
  const CallFacts call{.dtype = request.dtype,
                       .op = request.op,
                       .block_count = request.bytes / element_bytes / blocks,
                       .is_in_place = request.is_in_place};
  report.explanation =
      explain(table.value(), request.collective, request.bytes, library.algorithms(), call);
  return report;
}

}  // namespace mccl
