// What the planner would do on a network, size by size, from the cost model alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "planner/planner.h"
#include "verb/link_options.h"

namespace mccl {

struct PlanRow {
  std::string algorithm;
  bool is_chosen = false;
  bool has_cost = false;
  double time_ns = 0;  // modelled
  double bus_bytes_per_second = 0;
  std::string verdict;  // the reason of the choice, or why it was not chosen
};

struct SizeReport {
  int64_t bytes = 0;
  std::string rejection;      // why no program may run; else empty
  std::vector<PlanRow> rows;  // the chosen one first, then in catalogue order
};

// From `begin_bytes` on the planner takes `algorithm`.
struct Crossover {
  int64_t begin_bytes = 0;
  std::string algorithm;
  bool operator==(const Crossover&) const = default;
};

struct PlanReport {
  Collective collective = Collective::AllReduce;
  int rank_count = 0;
  LinkChoice link;
  std::vector<SizeReport> sizes;
  std::vector<Crossover> crossovers;
};

Result<PlanReport> make_plan_report(const LinkChoice& link, Collective collective, int rank_count,
                                    const std::vector<int64_t>& sizes, const std::string& algo);

// The number of ranks at which a flat ring's hop takes as long to arrive as to send: N with
// S/(N B) = alpha. Beyond it the ring waits for hops more than it moves bytes. With slices of
// `slice_bytes` the wire idles a little earlier: N with S/(N B) = alpha + slice/B.
struct RingLimit {
  int64_t bytes = 0;
  double rank_count = 0;
  double rank_count_with_slices = 0;
};
RingLimit ring_limit(const LinkCosts& costs, int64_t bytes, int64_t slice_bytes);

}  // namespace mccl
