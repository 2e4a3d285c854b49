#include "planner/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "planner/program_fit.h"
#include "planner/switches.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

constexpr const char* kPaperSmall = "all_reduce_recursive_doubling";
constexpr const char* kPaperLarge = "all_reduce_ring";

// Messages on their way at once from one rank, each on a stream of its own.
int64_t parallel_stream_count(const AlgorithmCost& cost) {
  return cost.hops == 0 ? 1 : std::max(1, cost.messages / cost.hops);
}

// W = alpha*B + max(slice, F) for the port, an equal share of it for each parallel stream, rounded
// up to whole slices so that the equal slices come out near the length wanted.
PlanEntry make_entry(const PlanTable& header, const ProgramChoice& choice,
                     const AlgorithmCost& cost) {
  const Algorithm& algorithm = *choice.algorithm;
  const LinkCosts& link = header.link.costs;
  const int64_t parallel = parallel_stream_count(cost);
  PlanEntry entry{.algorithm = to_string(choice),
                  .slice_bytes = header.link.slice_bytes,
                  .frame_bytes = header.link.frame_bytes,
                  .channel_sets = algorithm.channel_sets,
                  .reason = {}};
  if (!cost.is_pipelined && parallel == 1)
    entry.slice_bytes = std::max(entry.slice_bytes, kWholeMessageBytes);
  const WideInteger room = WideInteger{kMessagesOwnedPerStream} * algorithm.channel_sets *
                           std::max(1, cost.recv_streams) * cost.message_chunks;
  const int64_t slice_max =
      saturate(header.park_limit_bytes / room) / kCacheLineBytes * kCacheLineBytes;
  entry.slice_bytes = std::min(entry.slice_bytes, std::max(slice_max, kSliceBytesMin));
  const WideInteger in_flight =
      divide_up(WideInteger{link.alpha_high_ns} * link.bytes_per_second, 1'000'000'000) +
      std::max(entry.slice_bytes, entry.frame_bytes);
  const WideInteger share = divide_up(in_flight, parallel);
  entry.window_bytes = saturate(divide_up(share, entry.slice_bytes) * entry.slice_bytes);
  return entry;
}

void reject(Candidate& candidate, PlanRule rule, std::string reason, std::string remedy) {
  candidate.rule = rule;
  candidate.reason = std::move(reason);
  candidate.remedy = std::move(remedy);
}

// What a file says about where its program belongs.
void apply_use_rules(const PlanTable& header, const ProgramUse& use, Candidate& candidate) {
  if (!use.topology.empty() && use.topology != header.topology_name)
    reject(
        candidate, PlanRule::Topology,
        header.topology_name.empty()
            ? fmt::format("it is for topology \"{}\", and MCCL_TOPOLOGY names none", use.topology)
            : fmt::format("it is for topology \"{}\", this one is \"{}\"", use.topology,
                          header.topology_name),
        fmt::format("MCCL_TOPOLOGY={}", use.topology));
  else if (!admits_protocol(header.protocols, use.protocol))
    reject(candidate, PlanRule::Protocol,
           fmt::format("its protocol is {}, MCCL_PROTO is {}", msccl_protocol_name(use.protocol),
                       header.protocols),
           fmt::format("a MCCL_PROTO that admits {}", msccl_protocol_name(use.protocol)));
}

// The rules that nothing can override.
void apply_hard_rules(const PlanTable& header, Candidate& candidate) {
  const Algorithm& algorithm = *candidate.choice.algorithm;
  if (const Status status = check_rank_count(candidate.choice, header.rank_count);
      !status.is_ok()) {
    reject(candidate, PlanRule::RankCount, status.message(),
           algorithm.loaded != nullptr
               ? fmt::format("a communicator of {} ranks", algorithm.rank_count_max)
           : header.rank_count > algorithm.rank_count_max
               ? fmt::format("a communicator of at most {} ranks", algorithm.rank_count_max)
               : "another group size");
    return;
  }
  candidate.cost = program_cost(candidate.choice, header.rank_count);
  candidate.entry = make_entry(header, candidate.choice, candidate.cost);
  if (has_narrow_uplinks(header))
    candidate.uplink = {.bytes = busiest_uplink(header, candidate.choice, candidate.cost),
                        .ports = header.uplink_ports};
  if (algorithm.loaded != nullptr) {
    apply_use_rules(header, algorithm.loaded->use, candidate);
    if (candidate.rule != PlanRule::Admitted) return;
  }
  const bool reduces = candidate.cost.bytes_reduced.numerator != 0;
  if (header.is_canonical && reduces && !algorithm.reduces_in_rank_order) {
    reject(candidate, PlanRule::Canonical,
           "MCCL_DETERMINISTIC=canonical, and it does not reduce in rank order",
           "unset MCCL_DETERMINISTIC");
    return;
  }
  const int64_t least = saturate(WideInteger{kMessagesOwnedPerStream} * algorithm.channel_sets *
                                 std::max(1, candidate.cost.recv_streams) *
                                 candidate.cost.message_chunks * kSliceBytesMin);
  if (candidate.cost.hops > 0 && least > header.park_limit_bytes)
    reject(candidate, PlanRule::ParkLimit,
           fmt::format("its streams own at least {} bytes, MCCL_PARK_LIMIT is {}", least,
                       header.park_limit_bytes),
           fmt::format("MCCL_PARK_LIMIT={} or more", least));
}

void apply_list(const AlgorithmList& list, Selection& selection) {
  if (list.names.empty()) return;
  std::string blocked;
  bool any_runs = false;
  bool any_built_in_runs = false;
  for (const Candidate& candidate : selection.candidates) {
    if (!list_mentions(list, candidate.choice)) continue;
    selection.is_listed = true;
    any_runs = any_runs || candidate.rule == PlanRule::Admitted;
    any_built_in_runs = any_built_in_runs || (candidate.rule == PlanRule::Admitted &&
                                              candidate.choice.algorithm->loaded == nullptr);
    if (candidate.rule != PlanRule::Admitted)
      blocked += fmt::format("{}{} cannot run: {}", blocked.empty() ? "" : "; ", candidate.name,
                             candidate.reason);
  }
  if (!selection.is_listed) return;
  if (!list.is_exclusion && !any_runs) {
    selection.fallback = blocked;
    return;
  }
  selection.names_loaded_only = !list.is_exclusion && !any_built_in_runs;
  for (Candidate& candidate : selection.candidates) {
    const bool is_mentioned = list_mentions(list, candidate.choice);
    if (selection.names_loaded_only && candidate.choice.algorithm->loaded == nullptr) continue;
    if (candidate.rule != PlanRule::Admitted || is_mentioned != list.is_exclusion) continue;
    if (list.is_exclusion)
      reject(candidate, PlanRule::Excluded,
             fmt::format("MCCL_ALGO={} excludes it", to_string(list)),
             "take its name out of MCCL_ALGO");
    else
      reject(candidate, PlanRule::NotListed,
             fmt::format("MCCL_ALGO={} names others", to_string(list)),
             fmt::format("MCCL_ALGO={},{}", to_string(list), candidate.name));
  }
}

// A table is made before any call: whoever names the program answers for the calls.
void apply_equal_blocks_rule(const AlgorithmList& list, Selection& selection) {
  for (Candidate& candidate : selection.candidates) {
    const Algorithm& algorithm = *candidate.choice.algorithm;
    const bool is_named = !list.is_exclusion && list_mentions(list, candidate.choice);
    if (candidate.rule != PlanRule::Admitted || !algorithm.needs_equal_blocks || is_named) continue;
    reject(candidate, PlanRule::EqualBlocks,
           "it serves equal blocks only, and no rank can know that of the others'",
           fmt::format("MCCL_ALGO={}", algorithm.name));
  }
}

// The sizes that find_group_sizes() offers straddle only where none fits.
void apply_straddle_rule(const PlanTable& header, const AlgorithmList& list, Selection& selection) {
  if (!has_narrow_uplinks(header)) return;
  for (Candidate& candidate : selection.candidates) {
    const bool is_named = !list.is_exclusion && list_mentions(list, candidate.choice);
    if (candidate.rule != PlanRule::Admitted || candidate.choice.group_size == 0 || is_named)
      continue;
    if (do_groups_straddle(header, candidate.choice.group_size))
      reject(candidate, PlanRule::Straddles,
             fmt::format("groups of {} neighbours straddle switches, whose uplinks have {} ports",
                         candidate.choice.group_size, header.uplink_ports),
             fmt::format("ranks in the order of their switches, or MCCL_ALGO={}", candidate.name));
  }
}

bool is_admitted(const Selection& selection, std::string_view name) {
  return std::any_of(selection.candidates.begin(), selection.candidates.end(),
                     [&](const Candidate& candidate) {
                       return candidate.rule == PlanRule::Admitted && candidate.name == name;
                     });
}

void apply_paper_rule(const PlanTable& header, Selection& selection) {
  if (header.link.profile != CostProfile::Paper) return;
  if (!is_admitted(selection, kPaperSmall) || !is_admitted(selection, kPaperLarge)) return;
  selection.has_paper_rule = true;
  for (Candidate& candidate : selection.candidates) {
    if (candidate.rule != PlanRule::Admitted || candidate.name == kPaperSmall ||
        candidate.name == kPaperLarge || candidate.choice.algorithm->loaded != nullptr)
      continue;
    reject(candidate, PlanRule::PaperRule,
           "profile paper knows recursive doubling and the ring only",
           fmt::format("MCCL_ALGO={}, or another profile", candidate.name));
  }
}

// The algorithm, or of a family each size worth comparing and each that the list names.
std::vector<ProgramChoice> choices_of(const PlanTable& header, const Algorithm& algorithm,
                                      const AlgorithmList& list) {
  if (algorithm.groups.default_size == nullptr) return {{&algorithm, 0}};
  std::vector<int> sizes = find_group_sizes(header, algorithm);
  for (const int size : named_group_sizes(list, algorithm))
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  std::vector<ProgramChoice> choices;
  for (const int size : sizes) choices.push_back({&algorithm, size});
  return choices;
}

}  // namespace

const char* paper_choice(int64_t bytes) {
  return bytes > kPaperSwitchBytes ? kPaperLarge : kPaperSmall;
}

Selection select_candidates(const PlanTable& header, Collective collective,
                            const AlgorithmList& list,
                            std::span<const Algorithm* const> algorithms) {
  Selection selection;
  for (const Algorithm* algorithm : algorithms) {
    if (algorithm->collective != collective) continue;
    for (const ProgramChoice& choice : choices_of(header, *algorithm, list)) {
      Candidate& candidate = selection.candidates.emplace_back();
      candidate.choice = choice;
      candidate.name = to_string(choice);
      apply_hard_rules(header, candidate);
    }
  }
  apply_list(list, selection);
  apply_equal_blocks_rule(list, selection);
  apply_straddle_rule(header, list, selection);
  apply_paper_rule(header, selection);
  return selection;
}

CostTerms cost_of(const Candidate& candidate, const PlanTable& header, int64_t bytes) {
  return estimate_cost(candidate.cost, header.link.costs, bytes, candidate.entry.slice_bytes,
                       candidate.uplink);
}

const Candidate* choose(const Selection& selection, const PlanTable& header, int64_t bytes) {
  const Candidate* best = nullptr;
  int64_t best_ns = 0;
  for (const Candidate& candidate : selection.candidates) {
    if (candidate.rule != PlanRule::Admitted || candidate.choice.algorithm->loaded != nullptr)
      continue;
    if (selection.has_paper_rule) {
      if (candidate.name == paper_choice(bytes)) return &candidate;
      continue;
    }
    const int64_t cost_ns = cost_of(candidate, header, bytes).total_ns;
    if (best != nullptr && cost_ns >= best_ns) continue;
    best = &candidate;
    best_ns = cost_ns;
  }
  return best;
}

std::vector<const Candidate*> find_loaded(const Selection& selection, int64_t bytes) {
  std::vector<const Candidate*> found;
  for (const Candidate& candidate : selection.candidates) {
    const LoadedProgram* loaded = candidate.choice.algorithm->loaded;
    if (loaded == nullptr || candidate.rule != PlanRule::Admitted) continue;
    if (bytes >= loaded->use.begin_bytes && bytes < loaded->use.end_bytes)
      found.push_back(&candidate);
  }
  std::sort(found.begin(), found.end(), [](const Candidate* left, const Candidate* right) {
    const int left_priority = left->choice.algorithm->loaded->use.priority;
    const int right_priority = right->choice.algorithm->loaded->use.priority;
    return left_priority != right_priority ? left_priority > right_priority
                                           : left->name < right->name;
  });
  return found;
}

const char* plan_rule_name(PlanRule rule) {
  switch (rule) {
    case PlanRule::Admitted:
      return "admitted";
    case PlanRule::RankCount:
      return "rank_count";
    case PlanRule::Topology:
      return "topology";
    case PlanRule::Protocol:
      return "protocol";
    case PlanRule::Canonical:
      return "canonical";
    case PlanRule::ParkLimit:
      return "park_limit";
    case PlanRule::Excluded:
      return "excluded";
    case PlanRule::NotListed:
      return "not_listed";
    case PlanRule::EqualBlocks:
      return "equal_blocks";
    case PlanRule::Straddles:
      return "straddles";
    case PlanRule::PaperRule:
      return "paper_rule";
  }
  return "unknown";
}

std::vector<LoadedRefusal> list_refusals(const PlanTable& table, Collective collective,
                                         int64_t bytes,
                                         std::span<const Algorithm* const> algorithms) {
  AlgorithmList list;
  if (Result<AlgorithmList> parsed = parse_algorithm_list(table.algo, algorithms); parsed.is_ok())
    list = std::move(parsed).value();
  std::vector<LoadedRefusal> refusals;
  for (const Candidate& candidate :
       select_candidates(table, collective, list, algorithms).candidates) {
    const LoadedProgram* loaded = candidate.choice.algorithm->loaded;
    if (loaded == nullptr) continue;
    LoadedRefusal refusal{candidate.choice.algorithm, plan_rule_name(candidate.rule),
                          candidate.reason, candidate.remedy};
    if (candidate.rule == PlanRule::Admitted) {
      const ProgramUse& use = loaded->use;
      if (bytes >= use.begin_bytes && bytes < use.end_bytes) continue;
      refusal.rule = "window";
      refusal.reason = "its window is " + window_text(use);
      refusal.remedy = bytes < use.begin_bytes
                           ? fmt::format("calls of {} bytes or more", use.begin_bytes)
                           : fmt::format("calls of less than {} bytes", use.end_bytes);
    }
    refusals.push_back(std::move(refusal));
  }
  return refusals;
}

std::string window_text(const ProgramUse& use) {
  if (use.end_bytes == ProgramUse::kEndless)
    return fmt::format("{} bytes or more", use.begin_bytes);
  return fmt::format("{} bytes or more and less than {}", use.begin_bytes, use.end_bytes);
}

std::vector<Collective> collectives_of(std::span<const Algorithm* const> algorithms) {
  std::vector<Collective> found;
  for (const Algorithm* algorithm : algorithms)
    if (std::find(found.begin(), found.end(), algorithm->collective) == found.end())
      found.push_back(algorithm->collective);
  return found;
}

}  // namespace mccl
