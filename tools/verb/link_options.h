// The network that a verb reckons with, as the command line names it: --ranks, --link, --alpha-us,
// --gbps, --bandwidth.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mccl/status.h"
#include "planner/planner.h"
#include "planner/topology.h"

namespace CLI {
class App;
}

namespace mccl {

struct LinkOptions {
  std::string link = {};                // --link; empty: lan
  std::optional<double> alpha_us = {};  // --alpha-us; none: the link's
  std::optional<double> gbps = {};      // --gbps, gigabits; none: the link's
  std::string bandwidth = {};           // --bandwidth, with a unit; empty: the link's
};

void add_link_options(CLI::App& app, LinkOptions& options);

// A network as planner and simulator take it.
struct LinkChoice {
  std::string name;  // "paper", "lan, alpha and B given"
  PlannerSettings settings;
  LinkCosts costs;      // those that the plan goes by
  int64_t slice_bytes;  // of the profile
  int64_t frame_bytes;  // of the profile
};

// InvalidArgument names the option that is wrong. Ranks have a host of their own each, but on
// loopback.
Result<LinkChoice> choose_link(const LinkOptions& options);
Topology topology_of(const LinkChoice& link, int rank_count);

// "1.238GB/s", "9.904Gb/s", "941Mb/s": bytes per second.
Result<int64_t> parse_bandwidth(std::string_view text);

// Bus bandwidth by nccl-tests' definition, in bytes per second: what a rank's port carries. S as in
// AlgorithmCost, `time_ns` > 0.
double bus_bytes_per_second(Collective collective, int rank_count, int64_t bytes, double time_ns);
// The factor of busbw over S / t.
double bus_factor(Collective collective, int rank_count);

// "alpha 306.0 us, B 1.238 GB/s, reduces 10 GB/s, 5.0 us of CPU a message".
std::string describe_costs(const LinkCosts& costs);
// "alpha 306.0 us, B 1.238 GB/s": what a simulated network has.
std::string describe_wire(const LinkCosts& costs);

}  // namespace mccl
