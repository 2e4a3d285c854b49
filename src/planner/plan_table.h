// The table of plans of one communicator (law L7): rank 0 builds it, the bootstrap carries its
// text, calls look up integers. It also holds what it was built from, so that any rank can explain
// it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/status.h"
#include "mccl/types.h"
#include "planner/link_profile.h"

namespace mccl {

// Which program, and in what portions. T, m and the slice of a call follow from it (call_plan.h).
struct PlanEntry {
  std::string algorithm;     // as find_choice() reads it: of a family with its group size
  int64_t window_bytes = 0;  // W of law L1, for one stream, in whole slices
  int64_t slice_bytes = 0;   // the longest slice; a multiple of 64
  int64_t frame_bytes = 0;   // F that the window reckons with
  int channel_sets = 1;      // C: operation t uses set t mod C
  std::string reason;        // why this one, one line of printable text
  bool operator==(const PlanEntry&) const = default;
};

constexpr int64_t kBytesUnlimited = std::numeric_limits<int64_t>::max();

// Calls of begin_bytes <= S < end_bytes; S as in AlgorithmCost.
struct PlanWindow {
  int64_t begin_bytes = 0;
  int64_t end_bytes = kBytesUnlimited;
  PlanEntry entry;
  // What serves a call of this window that the entry's program, which is from a file, does not fit,
  // in this order. The last one is no program from a file, unless nothing else may run.
  std::vector<PlanEntry> others = {};
  bool operator==(const PlanWindow&) const = default;
};

struct CollectivePlan {
  Collective collective = Collective::AllReduce;
  std::vector<PlanWindow> windows;  // contiguous from 0 to kBytesUnlimited, or empty
  std::string rejection;            // why there is no program; empty when there are windows
  bool operator==(const CollectivePlan&) const = default;
};

struct PlanTable {
  int rank_count = 1;
  LinkProfile link;
  int64_t park_limit_bytes = kParkLimitBytesDefault;
  int uplink_ports = 0;             // of a switch's uplink, of B each; 0: never the limit
  std::vector<int> switch_of_rank;  // as in Topology
  std::string algo;                 // MCCL_ALGO in its canonical spelling
  bool is_strict = false;           // a named program that cannot run is an error
  bool is_canonical = false;        // only programs that reduce in rank order
  bool is_fit_strict = false;       // program_fit.h
  std::string protocols = {};       // MCCL_PROTO in its canonical spelling
  std::string topology_name = {};   // MCCL_TOPOLOGY
  std::vector<CollectivePlan> collectives;
  bool operator==(const PlanTable&) const = default;
};

// The window of a call; it lives as long as the table. Errors as for find_entry().
Result<const PlanWindow*> find_window(const PlanTable& table, Collective collective, int64_t bytes);

// The entry for a call that its program fits; it lives as long as the table. Unsupported, with the
// reason, when the table has no program for the collective. `bytes` >= 0. Any thread, does not
// block.
Result<const PlanEntry*> find_entry(const PlanTable& table, Collective collective, int64_t bytes);

// The entry for calls whose size the ranks do not share (all_to_all, where each has its own
// splits): that of the largest sizes. Errors as above.
Result<const PlanEntry*> find_sizeless_entry(const PlanTable& table, Collective collective);

// What every frame's fingerprint carries: FNV-1a of the entry's canonical text without its reason,
// the collective and the rank count.
uint32_t plan_hash(const PlanEntry& entry, Collective collective, int rank_count);

// Canonical text: the same table gives the same bytes.
std::string write_plan_table(const PlanTable& table);

// Inverse of write_plan_table. Trusts nothing: InvalidArgument names the line and what is wrong
// with it (syntax, ranges, gaps between windows, programs that `algorithms` lacks or that do not
// serve the collective or the rank count, a wrong checksum, any spelling that is not canonical).
Result<PlanTable> parse_plan_table(std::string_view text,
                                   std::span<const Algorithm* const> algorithms = catalog());

}  // namespace mccl
