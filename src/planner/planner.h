// Which program for which call: builds the table of plans of a communicator. Pure: no clock, no
// network, no environment; the same arguments give the same table on every rank.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "algorithms/catalog.h"
#include "base/config.h"
#include "mccl/status.h"
#include "planner/plan_table.h"
#include "planner/topology.h"

namespace mccl {

// The job's settings (all must agree between ranks).
struct PlannerSettings {
  CostProfile profile = CostProfile::Auto;
  std::optional<LinkCosts> costs = {};      // measured ones replace those of the profile
  std::optional<int64_t> slice_bytes = {};  // replaces that of the profile; rounded up to 64
  std::string algo = {};                    // MCCL_ALGO (algorithm_list.h)
  bool is_strict = false;                   // MCCL_ALGO_STRICT
  bool is_canonical = false;                // MCCL_DETERMINISTIC=canonical
  int64_t park_limit_bytes = kParkLimitBytesDefault;  // MCCL_PARK_LIMIT
  int uplink_ports = 0;                               // MCCL_UPLINK_PORTS
  bool is_fit_strict = false;                         // MCCL_ALGO_FIT=strict
  std::string protocols = {};                         // MCCL_PROTO
  std::string topology_name = {};                     // MCCL_TOPOLOGY
};

PlannerSettings planner_settings(const Config& config);

// For every collective that `algorithms` serves: the fastest admissible program per byte window;
// before it, within their own windows, the programs from files: by priority, then by name.
// Borders are found at powers of two and then refined to 4 KiB; ties go to the earlier program of
// the list. A collective without an admissible program keeps its place with the reason.
//
// InvalidArgument: a setting or the topology is wrong. Unsupported: strict, and a program named by
// MCCL_ALGO cannot run, or nothing is left of a collective; the message names it, the reason and
// what would do.
Result<PlanTable> build_plan_table(const Topology& topology, const PlannerSettings& settings,
                                   std::span<const Algorithm* const> algorithms = catalog());

}  // namespace mccl
