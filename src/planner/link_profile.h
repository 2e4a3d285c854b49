// What a link costs, and the named sets of such costs. All constants that steer a plan are in this
// file and link_profile.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/config.h"
#include "mccl/status.h"
#include "planner/topology.h"

namespace mccl {

// alpha, B, gamma and o of the cost model.
struct LinkCosts {
  int64_t alpha_ns = 0;                // one dependent hop, message of no length
  int64_t alpha_high_ns = 0;           // a high percentile of it: sizes the window, never the cost
  int64_t bytes_per_second = 1;        // B: one direction of a rank's port
  int64_t gamma_bytes_per_second = 0;  // 1/gamma: bytes reduced per second; 0: never the limit
  int64_t overhead_ns = 0;             // o: processor time per message beyond one per hop
  bool operator==(const LinkCosts&) const = default;
};

// InvalidArgument names the field that is out of range (B at most 1e15, times at most 1e12 ns).
Status check_link_costs(const LinkCosts& costs);

// Inverse of cost_profile_name (base/config.h).
std::optional<CostProfile> find_cost_profile(std::string_view name);

struct LinkProfile {
  CostProfile profile = CostProfile::Lan;  // never Auto
  LinkCosts costs;
  int64_t slice_bytes = 0;  // wanted for pipelined and many-message programs; a multiple of 64
  int64_t frame_bytes = 0;  // F of law L1: the most data that a credit waits behind
  bool operator==(const LinkProfile&) const = default;
};

// Auto is Loopback when all ranks live on one host, else Lan. Paper is the fleet of the MCCL paper,
// with the paper's own switch between algorithms.
LinkProfile link_profile(CostProfile profile, const Topology& topology);

// The unit of slice lengths: a slice never shares a cache line with the next one.
constexpr int64_t kCacheLineBytes = 64;
// A memory limit never presses slices below this; smaller ones cost more in headers than they save.
constexpr int64_t kSliceBytesMin = 4096;
constexpr int64_t kSliceBytesMax = int64_t{1} << 30;
// Instances own streams, and streams own memory and a place in every poll.
constexpr int64_t kInstanceCountMax = 32;
// Programs that send one message after the other gain nothing from slices below this.
constexpr int64_t kWholeMessageBytes = 256 * 1024;
// The paper: "buckets above 256 KiB around a pipelined ring", smaller ones by recursive doubling.
constexpr int64_t kPaperSwitchBytes = 262'144;
// MCCL_PARK_LIMIT unless it is set.
constexpr int64_t kParkLimitBytesDefault = int64_t{256} << 20;
// Far above any switch.
constexpr int kUplinkPortsMax = 4096;
// Every open stream of a posted operation owns so many messages (law L2.4).
constexpr int64_t kMessagesOwnedPerStream = 2;

}  // namespace mccl
