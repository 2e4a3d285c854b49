#include "planner/link_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace mccl {
namespace {

// Defaults until `mccl fit` and `mccl tune` have measured the machines at hand.
constexpr std::array<LinkProfile, 3> kProfiles = {{
    // A hop is a wake-up and two copies by a core that has other work too; large slices save system
    // calls and switches: at 64 MiB 512 KiB took 0.7 of the time of 128 KiB, at 2 ranks as at 4.
    {.profile = CostProfile::Loopback,
     .costs = {.alpha_ns = 8'000,
               .alpha_high_ns = 16'000,
               .bytes_per_second = 4'000'000'000,
               .gamma_bytes_per_second = 20'000'000'000,
               .overhead_ns = 3'000},
     .slice_bytes = 512 * 1024,
     .frame_bytes = 256 * 1024},
    // 1448 of every 1538 bytes on a 10 Gb/s wire are ours.
    {.profile = CostProfile::Lan,
     .costs = {.alpha_ns = 30'000,
               .alpha_high_ns = 60'000,
               .bytes_per_second = 1'177'000'000,
               .gamma_bytes_per_second = 10'000'000'000,
               .overhead_ns = 3'000},
     .slice_bytes = 64 * 1024,
     .frame_bytes = 64 * 1024},
    // The fleet of the paper: its latency per hop and its goodput with jumbo frames; it found that
    // adding is never the limit.
    {.profile = CostProfile::Paper,
     .costs = {.alpha_ns = 306'000,
               .alpha_high_ns = 306'000,
               .bytes_per_second = 1'238'000'000,
               .gamma_bytes_per_second = 0,
               .overhead_ns = 5'000},
     .slice_bytes = 64 * 1024,
     .frame_bytes = 64 * 1024},
}};

}  // namespace

Status check_link_costs(const LinkCosts& costs) {
  constexpr int64_t kTimeMax = 1'000'000'000'000;
  constexpr int64_t kRateMax = 1'000'000'000'000'000;
  struct Field {
    std::string_view name;
    int64_t value;
    int64_t min;
    int64_t max;
  };
  const std::array fields = {
      Field{"alpha_ns", costs.alpha_ns, 0, kTimeMax},
      Field{"alpha_high_ns", costs.alpha_high_ns, costs.alpha_ns, kTimeMax},
      Field{"bytes_per_second", costs.bytes_per_second, 1, kRateMax},
      Field{"gamma_bytes_per_second", costs.gamma_bytes_per_second, 0, kRateMax},
      Field{"overhead_ns", costs.overhead_ns, 0, kTimeMax},
  };
  for (const Field& field : fields)
    if (field.value < field.min || field.value > field.max)
      return {StatusCode::InvalidArgument,
              fmt::format("link costs: {} is {}, allowed are {} to {}", field.name, field.value,
                          field.min, field.max)};
  return Status::ok();
}

std::optional<CostProfile> find_cost_profile(std::string_view name) {
  for (const CostProfile profile :
       {CostProfile::Auto, CostProfile::Loopback, CostProfile::Lan, CostProfile::Paper})
    if (cost_profile_name(profile) == name) return profile;
  return std::nullopt;
}

LinkProfile link_profile(CostProfile profile, const Topology& topology) {
  if (profile == CostProfile::Auto)
    profile = topology.host_count == 1 ? CostProfile::Loopback : CostProfile::Lan;
  return *std::find_if(kProfiles.begin(), kProfiles.end(),
                       [&](const LinkProfile& row) { return row.profile == profile; });
}

}  // namespace mccl
