// Sizes around the root of n have the fewest hops; larger groups have fewer hops that wait for
// latency (those between groups, whose messages are short), so that the best lies above the root.
// Tests: switches_test.cc.
#include "planner/switches.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/check.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

// More sizes would only make more windows in the table, each with a program of its own to prove.
constexpr int kGroupSizesMax = 6;

size_t switch_count(const PlanTable& header) {
  const auto last = std::max_element(header.switch_of_rank.begin(), header.switch_of_rank.end());
  return last == header.switch_of_rank.end() ? 1 : static_cast<size_t>(*last) + 1;
}

int64_t visit_traffic(const ProgramChoice& choice, int rank_count, const TrafficVisitor& visit) {
  const Algorithm& algorithm = *choice.algorithm;
  return choice.group_size == 0
             ? algorithm.visit_traffic(rank_count, visit)
             : algorithm.groups.visit_traffic(rank_count, choice.group_size, visit);
}

Fraction all_of_busiest_switch(const PlanTable& header, const AlgorithmCost& cost) {
  std::vector<int64_t> rank_counts(switch_count(header), 0);
  for (const int place : header.switch_of_rank) ++rank_counts[static_cast<size_t>(place)];
  const int64_t most = *std::max_element(rank_counts.begin(), rank_counts.end());
  return {saturate(WideInteger{cost.bytes_moved.numerator} * most), cost.bytes_moved.denominator};
}

// The size in [low, high] with the fewest laps (1: it divides the rank count), then the nearest to
// `wanted`, then the larger one.
int fitting_size(int rank_count, int low, int wanted, int high) {
  const auto rank_of = [&](int size) {
    const int rest = rank_count % size == 0 ? size : rank_count % size;
    return std::tuple((size + rest - 1) / rest, std::abs(size - wanted), -size);
  };
  int best = low;
  for (int size = low; size <= high; ++size)
    if (rank_of(size) < rank_of(best)) best = size;
  return best;
}

// sqrt(n) * 2^(k/2) for k = -1 ... 4, moved by at most a sixth so that groups fill up.
std::vector<int> sizes_around_the_root(int rank_count) {
  std::vector<int> sizes;
  for (int power = -1; power <= 4; ++power) {
    const int64_t square = power < 0 ? rank_count / 2 : int64_t{rank_count} << power;
    int wanted = 1;
    while (int64_t{wanted + 1} * (wanted + 1) <= square) ++wanted;
    const int slack = wanted / 6;
    if (wanted < 2 || wanted > rank_count / 2) continue;
    sizes.push_back(fitting_size(rank_count, wanted - slack, wanted, wanted + slack));
  }
  return sizes;
}

}  // namespace

bool has_narrow_uplinks(const PlanTable& header) {
  return header.uplink_ports > 0 && switch_count(header) > 1;
}

Fraction busiest_uplink(const PlanTable& header, const ProgramChoice& choice,
                        const AlgorithmCost& cost) {
  const bool is_known = choice.group_size > 0 ? choice.algorithm->groups.visit_traffic != nullptr
                                              : choice.algorithm->visit_traffic != nullptr;
  if (!is_known) return all_of_busiest_switch(header, cost);
  std::vector<int64_t> up(switch_count(header), 0);
  std::vector<int64_t> down(up.size(), 0);
  const int64_t chunks_of_s =
      visit_traffic(choice, header.rank_count, [&](int from, int to, int64_t chunk_count) {
        const auto sender = static_cast<size_t>(header.switch_of_rank[static_cast<size_t>(from)]);
        const auto receiver = static_cast<size_t>(header.switch_of_rank[static_cast<size_t>(to)]);
        if (sender == receiver) return;
        up[sender] += chunk_count;
        down[receiver] += chunk_count;
      });
  return {std::max(*std::max_element(up.begin(), up.end()),
                   *std::max_element(down.begin(), down.end())),
          chunks_of_s};
}

bool do_groups_straddle(const PlanTable& header, int group_size) {
  MCCL_CHECK_LT(0, group_size);
  for (size_t rank = 1; rank < header.switch_of_rank.size(); ++rank)
    if (rank % static_cast<size_t>(group_size) != 0 &&
        header.switch_of_rank[rank] != header.switch_of_rank[rank - 1])
      return true;
  return false;
}

std::vector<int> find_group_sizes(const PlanTable& header, const Algorithm& family) {
  const int rank_count = header.rank_count;
  std::vector<int> sizes;
  if (has_narrow_uplinks(header)) {
    for (int size = 2; size < rank_count; ++size)
      if (!do_groups_straddle(header, size)) sizes.push_back(size);
  } else {
    sizes = sizes_around_the_root(rank_count);
  }
  std::erase_if(sizes,
                [&](int size) { return !family.groups.check_size(rank_count, size).is_ok(); });
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() > kGroupSizesMax)
    sizes.erase(sizes.begin(), sizes.end() - kGroupSizesMax);  // small groups have the most hops
  if (sizes.empty()) sizes.push_back(family.groups.default_size(rank_count));
  return sizes;
}

}  // namespace mccl
