#include "verb/link_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdlib>

#include "verb/verb.h"

namespace mccl {
namespace {

constexpr double kAlphaUsMax = 1e9;  // what check_link_costs() allows

}  // namespace

void add_link_options(CLI::App& app, LinkOptions& options) {
  app.add_option("--link", options.link, "Kind of link: paper, lan (default) or loopback");
  app.add_option("--alpha-us", options.alpha_us, "Latency of one hop in microseconds");
  app.add_option("--gbps", options.gbps,
                 "Goodput of a rank's port, each direction, in gigaBITS per second (paper: 9.904)");
  app.add_option("--bandwidth", options.bandwidth,
                 "The same with its unit: 1.238GB/s, 9.904Gb/s, 941Mb/s, 117MB/s");
}

Result<int64_t> parse_bandwidth(std::string_view text) {
  struct Unit {
    std::string_view name;
    double bytes_per_second;
  };
  constexpr std::array kUnits = {Unit{"GB/s", 1e9}, Unit{"MB/s", 1e6}, Unit{"Gb/s", 1.25e8},
                                 Unit{"Mb/s", 1.25e5}};
  const std::string copy(text);
  char* end = nullptr;
  const double value = std::strtod(copy.c_str(), &end);
  for (const Unit& unit : kUnits)
    if (end != copy.c_str() && unit.name == end && value > 0 &&
        value * unit.bytes_per_second >= 1 && value * unit.bytes_per_second <= 1e15)
      return static_cast<int64_t>(std::llround(value * unit.bytes_per_second));
  return wrong_usage(fmt::format(
      "--bandwidth \"{}\" is not a bandwidth: a number and one of GB/s, MB/s, Gb/s, Mb/s", text));
}

Result<LinkChoice> choose_link(const LinkOptions& options) {
  const std::string name = options.link.empty() ? "lan" : options.link;
  const std::optional<CostProfile> profile = find_cost_profile(name);
  if (!profile || *profile == CostProfile::Auto)
    return wrong_usage(
        fmt::format("--link \"{}\" is unknown: paper, lan and loopback are known", name));
  const LinkProfile row = link_profile(*profile, {});
  LinkChoice choice{.name = name,
                    .settings = {.profile = *profile},
                    .costs = row.costs,
                    .slice_bytes = row.slice_bytes,
                    .frame_bytes = row.frame_bytes};
  if (options.gbps && !options.bandwidth.empty())
    return wrong_usage("--gbps and --bandwidth say the same: give one of them");
  if (options.alpha_us) {
    if (!(*options.alpha_us >= 0 && *options.alpha_us <= kAlphaUsMax))
      return wrong_usage(
          fmt::format("--alpha-us {}: allowed are 0 to {:.0f}", *options.alpha_us, kAlphaUsMax));
    choice.costs.alpha_ns = std::llround(*options.alpha_us * 1e3);
    choice.costs.alpha_high_ns = choice.costs.alpha_ns;
    choice.name += ", alpha given";
  }
  if (options.gbps || !options.bandwidth.empty()) {
    const Result<int64_t> bandwidth =
        parse_bandwidth(options.gbps ? fmt::format("{}Gb/s", *options.gbps) : options.bandwidth);
    if (!bandwidth.is_ok()) return bandwidth.status();
    choice.costs.bytes_per_second = bandwidth.value();
    choice.name += ", B given";
  }
  MCCL_RETURN_IF_ERROR(check_link_costs(choice.costs));
  choice.settings.costs = choice.costs;
  return choice;
}

Topology topology_of(const LinkChoice& link, int rank_count) {
  return make_topology(rank_count, link.settings.profile == CostProfile::Loopback ? 1 : rank_count);
}

double bus_factor(Collective collective, int rank_count) {
  const double ranks = rank_count;
  switch (collective) {
    case Collective::AllReduce:
      return 2 * (ranks - 1) / ranks;
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::Gather:
    case Collective::Scatter:
    case Collective::AllToAll:
      return (ranks - 1) / ranks;
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::Custom:
      break;
  }
  return 1;
}

double bus_bytes_per_second(Collective collective, int rank_count, int64_t bytes, double time_ns) {
  return bus_factor(collective, rank_count) * static_cast<double>(bytes) / time_ns * 1e9;
}

std::string describe_wire(const LinkCosts& costs) {
  return fmt::format("alpha {:.1f} us, B {:.4g} GB/s", static_cast<double>(costs.alpha_ns) / 1e3,
                     static_cast<double>(costs.bytes_per_second) / 1e9);
}

std::string describe_costs(const LinkCosts& costs) {
  std::string text = describe_wire(costs);
  if (costs.gamma_bytes_per_second > 0)
    text += fmt::format(", reduces {:.4g} GB/s",
                        static_cast<double>(costs.gamma_bytes_per_second) / 1e9);
  return text +
         fmt::format(", {:.1f} us of CPU a message", static_cast<double>(costs.overhead_ns) / 1e3);
}

}  // namespace mccl
