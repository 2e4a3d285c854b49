#include "planner/topology.h"

#include <fmt/format.h>

#include "base/check.h"

namespace mccl {

Topology make_topology(int rank_count, int host_count) {
  MCCL_CHECK_LE(1, host_count);
  MCCL_CHECK_LE(host_count, rank_count);
  Topology topology{
      .rank_count = rank_count, .host_count = host_count, .host_of_rank = {}, .switch_of_rank = {}};
  for (int rank = 0; rank < rank_count; ++rank)
    topology.host_of_rank.push_back(
        static_cast<int>(static_cast<int64_t>(rank) * host_count / rank_count));
  return topology;
}

bool are_switches_in_order(const std::vector<int>& switch_of_rank) {
  int seen_count = 0;
  for (const int place : switch_of_rank) {
    if (place < 0 || place > seen_count) return false;
    if (place == seen_count) ++seen_count;
  }
  return true;
}

Status check_topology(const Topology& topology) {
  const auto fault = [](std::string text) {
    return Status(StatusCode::InvalidArgument, "topology: " + std::move(text));
  };
  if (topology.rank_count < 1) return fault(fmt::format("{} ranks", topology.rank_count));
  if (topology.host_count < 1 || topology.host_count > topology.rank_count)
    return fault(fmt::format("{} hosts for {} ranks", topology.host_count, topology.rank_count));
  if (topology.host_of_rank.size() != static_cast<size_t>(topology.rank_count))
    return fault(fmt::format("{} host entries for {} ranks", topology.host_of_rank.size(),
                             topology.rank_count));
  for (size_t rank = 0; rank < topology.host_of_rank.size(); ++rank) {
    const int host = topology.host_of_rank[rank];
    if (host < 0 || host >= topology.host_count)
      return fault(fmt::format("rank {} lives on host {} of {}", rank, host, topology.host_count));
  }
  const std::vector<int>& switches = topology.switch_of_rank;
  if (!switches.empty() && switches.size() != static_cast<size_t>(topology.rank_count))
    return fault(
        fmt::format("{} switch entries for {} ranks", switches.size(), topology.rank_count));
  if (!are_switches_in_order(switches))
    return fault("switches are not numbered in the order of the ranks");
  return Status::ok();
}

}  // namespace mccl
