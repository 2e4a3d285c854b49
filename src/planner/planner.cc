// Builds the table: for each collective, admit the candidates, walk the sizes, cut the windows.
//
// Costs are compared at 0 and at every power of two to 1 TiB. Where the winner of two neighbouring
// powers differs, the border between them is bisected on a grid of 4 KiB; below 8 KiB the powers
// are closer than that and are borders themselves. Costs at hand are piecewise linear in the size,
// and a program that is best only strictly between two powers is worth no window of its own. Tests:
// planner_test.cc.
#include "planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "planner/selection.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

constexpr int64_t kBorderGridBytes = 4096;
constexpr int kLargestPower = 40;

std::string reason_for(const Selection& selection, const PlanTable& header) {
  std::string reason;
  const auto admitted = std::count_if(selection.candidates.begin(), selection.candidates.end(),
                                      [](const Candidate& candidate) {
                                        return candidate.rule == PlanRule::Admitted &&
                                               candidate.choice.algorithm->loaded == nullptr;
                                      });
  if (selection.has_paper_rule)
    reason = fmt::format("profile paper: above {} bytes the ring, else recursive doubling",
                         kPaperSwitchBytes);
  else if (admitted == 1)
    reason = "the only admissible program";
  else
    reason = fmt::format("fastest of {} by the cost model", admitted);
  if (!selection.fallback.empty())
    reason += fmt::format("; MCCL_ALGO={} set aside: {}", header.algo, selection.fallback);
  else if (selection.names_loaded_only)
    reason += fmt::format("; MCCL_ALGO={} names programs that do not serve it", header.algo);
  else if (selection.is_listed)
    reason += fmt::format("; MCCL_ALGO={}", header.algo);
  return reason;
}

std::string printable(std::string text) {
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

PlanEntry loaded_entry(const Selection& selection, const PlanTable& header,
                       const Candidate& candidate) {
  PlanEntry entry = candidate.entry;
  entry.reason = printable("loaded from " + candidate.choice.algorithm->loaded->file);
  if (selection.is_listed && selection.fallback.empty())
    entry.reason += fmt::format("; MCCL_ALGO={}", header.algo);
  return entry;
}

// Cuts the windows of the built-ins where those of programs from files begin and end, and puts
// these first. Where there is no built-in, all sizes must be theirs.
void add_loaded(const Selection& selection, const PlanTable& header, CollectivePlan& plan) {
  std::set<int64_t> borders;
  for (const Candidate& candidate : selection.candidates) {
    const LoadedProgram* loaded = candidate.choice.algorithm->loaded;
    if (loaded == nullptr || candidate.rule != PlanRule::Admitted) continue;
    borders.insert(loaded->use.begin_bytes);
    borders.insert(loaded->use.end_bytes);
  }
  if (borders.empty()) return;
  std::vector<PlanWindow> built_ins = std::move(plan.windows);
  plan.windows.clear();
  if (built_ins.empty()) built_ins.push_back({});
  for (const PlanWindow& built_in : built_ins) {
    int64_t begin = built_in.begin_bytes;
    while (begin < built_in.end_bytes) {
      const auto border = borders.upper_bound(begin);
      const int64_t end =
          border == borders.end() ? built_in.end_bytes : std::min(*border, built_in.end_bytes);
      PlanWindow window{.begin_bytes = begin, .end_bytes = end, .entry = built_in.entry};
      std::vector<PlanEntry> entries;
      for (const Candidate* candidate : find_loaded(selection, begin))
        entries.push_back(loaded_entry(selection, header, *candidate));
      if (!built_in.entry.algorithm.empty()) entries.push_back(built_in.entry);
      if (entries.empty()) {
        plan.windows.clear();
        return;
      }
      window.entry = entries.front();
      window.others.assign(std::next(entries.begin()), entries.end());
      plan.windows.push_back(std::move(window));
      begin = end;
    }
  }
}

// The least multiple of the grid in (low, high] from which the winner is no longer `winner`, if
// winners change once in between; `high` itself where the grid is too coarse.
int64_t find_border(const Selection& selection, const PlanTable& header, const Candidate* winner,
                    int64_t low, int64_t high) {
  while (high - low > kBorderGridBytes) {
    const int64_t middle = (low + (high - low) / 2) / kBorderGridBytes * kBorderGridBytes;
    if (middle <= low) break;
    if (choose(selection, header, middle) == winner)
      low = middle;
    else
      high = middle;
  }
  return high;
}

void open_window(CollectivePlan& plan, const Candidate& candidate, int64_t begin,
                 const std::string& reason) {
  if (!plan.windows.empty()) plan.windows.back().end_bytes = begin;
  PlanWindow window{.begin_bytes = begin, .end_bytes = kBytesUnlimited, .entry = candidate.entry};
  window.entry.reason = reason;
  plan.windows.push_back(std::move(window));
}

void cut_windows(const Selection& selection, const PlanTable& header, CollectivePlan& plan) {
  const std::string reason = reason_for(selection, header);
  const Candidate* current = choose(selection, header, 0);
  open_window(plan, *current, 0, reason);
  if (selection.has_paper_rule) {
    open_window(plan, *choose(selection, header, kPaperSwitchBytes + 1), kPaperSwitchBytes + 1,
                reason);
    return;
  }
  int64_t low = 0;
  for (int power = 0; power <= kLargestPower; ++power) {
    const int64_t high = int64_t{1} << power;
    while (choose(selection, header, high) != current) {
      const int64_t border = find_border(selection, header, current, low, high);
      current = choose(selection, header, border);
      open_window(plan, *current, border, reason);
      low = border;
    }
    low = high;
  }
}

std::string why_nothing_is_left(const Selection& selection, Collective collective) {
  std::string text = fmt::format("no program for {} may run:", collective_name(collective));
  for (const Candidate& candidate : selection.candidates)
    text +=
        fmt::format(" {}: {} (would do: {});", candidate.name, candidate.reason, candidate.remedy);
  text.pop_back();
  return text;
}

// Strict: everything that MCCL_ALGO names runs, or nothing does.
Status check_strict(const PlanTable& header, const Selection& selection,
                    const AlgorithmList& list) {
  if (list.is_exclusion) return Status::ok();
  for (const Candidate& candidate : selection.candidates) {
    // What a program from a file does not serve is an error of the call.
    if (candidate.choice.algorithm->loaded != nullptr) continue;
    if (candidate.rule == PlanRule::Admitted || !list_mentions(list, candidate.choice)) continue;
    if (candidate.rule == PlanRule::PaperRule)
      continue;  // a list cannot lead there and name all three
    return {StatusCode::Unsupported,
            fmt::format("MCCL_ALGO={} names {}, which cannot run: {}; would do: {}, or "
                        "MCCL_ALGO_STRICT=0",
                        header.algo, candidate.name, candidate.reason, candidate.remedy)};
  }
  return Status::ok();
}

Status check_strict_names(const AlgorithmList& list, std::span<const Algorithm* const> algorithms) {
  const std::vector<std::string> unmatched = unmatched_names(list, algorithms);
  if (unmatched.empty()) return Status::ok();
  return {StatusCode::Unsupported,
          fmt::format("MCCL_ALGO={} names {}, which is not a program of this library; would do: "
                      "take it out of the list, or MCCL_ALGO_STRICT=0",
                      to_string(list), unmatched.front())};
}

Result<PlanTable> make_header(const Topology& topology, const PlannerSettings& settings,
                              const AlgorithmList& list) {
  MCCL_RETURN_IF_ERROR(check_topology(topology));
  PlanTable header{.rank_count = topology.rank_count,
                   .link = link_profile(settings.profile, topology),
                   .park_limit_bytes = settings.park_limit_bytes,
                   .uplink_ports = settings.uplink_ports,
                   .switch_of_rank = topology.switch_of_rank,
                   .algo = to_string(list),
                   .is_strict = settings.is_strict,
                   .is_canonical = settings.is_canonical,
                   .is_fit_strict = settings.is_fit_strict,
                   .protocols = settings.protocols,
                   .topology_name = settings.topology_name,
                   .collectives = {}};
  if (settings.costs) header.link.costs = *settings.costs;
  MCCL_RETURN_IF_ERROR(check_link_costs(header.link.costs));
  if (settings.slice_bytes) {
    if (*settings.slice_bytes < kSliceBytesMin || *settings.slice_bytes > kSliceBytesMax)
      return Status(StatusCode::InvalidArgument,
                    fmt::format("slice of {} bytes, allowed are {} to {}", *settings.slice_bytes,
                                kSliceBytesMin, kSliceBytesMax));
    header.link.slice_bytes =
        divide_up_bytes(*settings.slice_bytes, kCacheLineBytes) * kCacheLineBytes;
  }
  constexpr int64_t kParkLimitMax = int64_t{1} << 40;
  if (settings.park_limit_bytes < 1 || settings.park_limit_bytes > kParkLimitMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("MCCL_PARK_LIMIT is {}, allowed are 1 to {}",
                              settings.park_limit_bytes, kParkLimitMax));
  if (settings.uplink_ports < 0 || settings.uplink_ports > kUplinkPortsMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("MCCL_UPLINK_PORTS is {}, allowed are 0 to {}", settings.uplink_ports,
                              kUplinkPortsMax));
  return header;
}

}  // namespace

PlannerSettings planner_settings(const Config& config) {
  return {.profile = config.cost_profile,
          .costs = std::nullopt,
          .slice_bytes = std::nullopt,
          .algo = config.algorithms,
          .is_strict = config.is_algorithm_strict,
          .is_canonical = config.is_canonical_order,
          .park_limit_bytes = config.park_limit_bytes,
          .uplink_ports = config.uplink_ports,
          .is_fit_strict = config.is_fit_strict,
          .protocols = config.protocols,
          .topology_name = config.topology_name};
}

Result<PlanTable> build_plan_table(const Topology& topology, const PlannerSettings& settings,
                                   std::span<const Algorithm* const> algorithms) {
  Result<AlgorithmList> list = parse_algorithm_list(settings.algo, algorithms);
  if (!list.is_ok()) return list.status();
  Result<PlanTable> made = make_header(topology, settings, list.value());
  if (!made.is_ok()) return made.status();
  PlanTable table = std::move(made).value();
  if (table.is_strict) MCCL_RETURN_IF_ERROR(check_strict_names(list.value(), algorithms));
  for (const Collective collective : collectives_of(algorithms)) {
    const Selection selection = select_candidates(table, collective, list.value(), algorithms);
    if (table.is_strict) MCCL_RETURN_IF_ERROR(check_strict(table, selection, list.value()));
    CollectivePlan plan{.collective = collective, .windows = {}, .rejection = {}};
    if (choose(selection, table, 0) != nullptr) cut_windows(selection, table, plan);
    add_loaded(selection, table, plan);
    if (plan.windows.empty()) plan.rejection = why_nothing_is_left(selection, collective);
    if (table.is_strict && plan.windows.empty())
      return Status(StatusCode::Unsupported, plan.rejection);
    table.collectives.push_back(std::move(plan));
  }
  return table;
}

}  // namespace mccl
