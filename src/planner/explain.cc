#include "planner/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/selection.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

// "12.3 %", rounded to the nearest tenth.
std::string percent(int64_t part, int64_t whole) {
  const int64_t tenths =
      saturate((WideInteger{part} * 1000 + whole / 2) / std::max<int64_t>(whole, 1));
  return fmt::format("{}.{} %", tenths / 10, tenths % 10);
}

// The entry that serves the call: the first whose program it fits.
const PlanEntry* find_serving_entry(const PlanTable& table, const PlanWindow& window,
                                    std::span<const Algorithm* const> algorithms,
                                    const std::optional<CallFacts>& call) {
  if (!call) return &window.entry;
  const auto fits = [&](const PlanEntry& entry) {
    const Algorithm* algorithm = find_choice(entry.algorithm, algorithms).algorithm;
    return algorithm == nullptr || algorithm->loaded == nullptr ||
           find_fit(*algorithm->loaded, *call, table.is_fit_strict).rule == FitRule::Fits;
  };
  if (fits(window.entry)) return &window.entry;
  for (const PlanEntry& other : window.others)
    if (fits(other)) return &other;
  return nullptr;
}

// Of a program from a file that the table's rules admit: what is in the way of this call.
FitWords describe_loaded(const PlanTable& table, const LoadedProgram& loaded, int64_t bytes,
                         const CandidateExplanation& chosen, const std::optional<CallFacts>& call) {
  const ProgramUse& use = loaded.use;
  if (bytes < use.begin_bytes || bytes >= use.end_bytes)
    return {"its window is " + window_text(use),
            bytes < use.begin_bytes ? fmt::format("calls of {} bytes or more", use.begin_bytes)
                                    : fmt::format("calls of less than {} bytes", use.end_bytes)};
  const FitRule rule = call ? find_fit(loaded, *call, table.is_fit_strict).rule : FitRule::Fits;
  if (rule != FitRule::Fits) return describe_fit(rule, loaded, *call);
  return {fmt::format("{} goes first: its priority is higher, or as high and its name before",
                      chosen.algorithm),
          fmt::format("a priority above {}, or MCCL_ALGO={}", use.priority, loaded.program.name)};
}

// The nearest call size that the table gives to `algorithm`, or nothing.
std::string nearest_window(const CollectivePlan& plan, std::string_view algorithm, int64_t bytes) {
  std::string nearest;
  int64_t nearest_distance = kBytesUnlimited;
  for (const PlanWindow& window : plan.windows) {
    if (window.entry.algorithm != algorithm) continue;
    const bool is_above = window.begin_bytes > bytes;
    const int64_t distance = is_above ? window.begin_bytes - bytes : bytes - window.end_bytes + 1;
    if (distance >= nearest_distance) continue;
    nearest_distance = distance;
    nearest = is_above ? fmt::format("calls of {} bytes or more", window.begin_bytes)
                       : fmt::format("calls of less than {} bytes", window.end_bytes);
  }
  return nearest;
}

std::string not_chosen(const Selection& selection, const CostTerms& cost,
                       const CandidateExplanation& chosen, int64_t bytes) {
  if (selection.has_paper_rule)
    return fmt::format("profile paper: {} bytes are {} the switch at {} bytes", bytes,
                       bytes > kPaperSwitchBytes ? "above" : "not above", kPaperSwitchBytes);
  const int64_t difference = cost.total_ns - chosen.cost.total_ns;
  if (difference > 0)
    return fmt::format("slower than {} by {}", chosen.algorithm,
                       percent(difference, chosen.cost.total_ns));
  if (difference == 0)
    return fmt::format("as fast as {}, which comes first or has this window", chosen.algorithm);
  return fmt::format("the table's window names {}, which the model has slower by {}",
                     chosen.algorithm, percent(-difference, cost.total_ns));
}

const CollectivePlan* find_plan(const PlanTable& table, Collective collective) {
  for (const CollectivePlan& plan : table.collectives)
    if (plan.collective == collective) return &plan;
  return nullptr;
}

CandidateExplanation describe(const Candidate& candidate, const PlanTable& table, int64_t bytes) {
  CandidateExplanation text{.algorithm = candidate.name,
                            .cost = {},
                            .channel_sets = candidate.choice.algorithm->channel_sets,
                            .verdict = candidate.reason,
                            .remedy = candidate.remedy};
  text.has_cost = candidate.rule != PlanRule::RankCount;
  if (text.has_cost) text.cost = cost_of(candidate, table, bytes);
  return text;
}

}  // namespace

Explanation explain(const PlanTable& table, Collective collective, int64_t bytes,
                    std::span<const Algorithm* const> algorithms,
                    const std::optional<CallFacts>& call) {
  Explanation explanation{.collective = collective,
                          .bytes = bytes,
                          .rank_count = table.rank_count,
                          .profile = std::string(cost_profile_name(table.link.profile)),
                          .rejection = {},
                          .ignored_names = {},
                          .candidates = {}};
  AlgorithmList list;
  if (Result<AlgorithmList> parsed = parse_algorithm_list(table.algo, algorithms); parsed.is_ok())
    list = std::move(parsed).value();
  explanation.ignored_names = unmatched_names(list, algorithms);
  const Selection selection = select_candidates(table, collective, list, algorithms);
  const Result<const PlanWindow*> window = find_window(table, collective, bytes);
  if (!window.is_ok()) explanation.rejection = window.status().message();
  const PlanEntry* const entry =
      window.is_ok() ? find_serving_entry(table, *window.value(), algorithms, call) : nullptr;
  if (window.is_ok() && entry == nullptr)
    explanation.rejection = "no program of the window fits the call";
  for (const Candidate& candidate : selection.candidates) {
    CandidateExplanation text = describe(candidate, table, bytes);
    text.is_chosen = entry != nullptr && text.algorithm == entry->algorithm;
    if (text.is_chosen) {
      text.verdict = entry->reason;
      text.remedy.clear();
    }
    explanation.candidates.push_back(std::move(text));
  }
  const auto chosen =
      std::find_if(explanation.candidates.begin(), explanation.candidates.end(),
                   [](const CandidateExplanation& candidate) { return candidate.is_chosen; });
  // Nothing serves the call; what is in the way of the programs from files is told all the same.
  const CandidateExplanation nothing;
  const CandidateExplanation& best = chosen == explanation.candidates.end() ? nothing : *chosen;
  const bool is_loaded_chosen =
      chosen != explanation.candidates.end() &&
      selection.candidates[static_cast<size_t>(chosen - explanation.candidates.begin())]
              .choice.algorithm->loaded != nullptr;
  const CollectivePlan* plan = find_plan(table, collective);
  for (size_t index = 0; index < selection.candidates.size(); ++index) {
    CandidateExplanation& text = explanation.candidates[index];
    if (text.is_chosen || selection.candidates[index].rule != PlanRule::Admitted) continue;
    const LoadedProgram* loaded = selection.candidates[index].choice.algorithm->loaded;
    if (loaded != nullptr) {
      const FitWords words = describe_loaded(table, *loaded, bytes, best, call);
      text.verdict = words.reason;
      text.remedy = words.remedy;
      continue;
    }
    if (chosen == explanation.candidates.end()) continue;
    if (is_loaded_chosen) {
      text.verdict = best.algorithm + ", which is from a file, goes first";
      text.remedy = "MCCL_ALGO=" + text.algorithm;
      continue;
    }
    text.verdict = not_chosen(selection, text.cost, *chosen, bytes);
    text.remedy = nearest_window(*plan, text.algorithm, bytes);
    text.remedy +=
        fmt::format("{}MCCL_ALGO={}", text.remedy.empty() ? "" : ", or ", text.algorithm);
  }
  if (chosen != explanation.candidates.end())
    std::rotate(explanation.candidates.begin(), chosen, std::next(chosen));
  return explanation;
}

Status check_strict_call(const PlanTable& table, Collective collective, int64_t bytes,
                         const CallFacts& call, const Algorithm& chosen,
                         std::span<const Algorithm* const> algorithms) {
  if (!table.is_strict) return Status::ok();
  const Result<AlgorithmList> list = parse_algorithm_list(table.algo, algorithms);
  if (!list.is_ok()) return list.status();
  if (list.value().is_exclusion || list_mentions(list.value(), {&chosen, 0})) return Status::ok();
  const Explanation explanation = explain(table, collective, bytes, algorithms, call);
  for (const CandidateExplanation& candidate : explanation.candidates) {
    const ProgramChoice choice = find_choice(candidate.algorithm, algorithms);
    if (choice.algorithm == nullptr || choice.algorithm->loaded == nullptr) continue;
    if (list_mentions(list.value(), choice))
      return {StatusCode::Unsupported,
              fmt::format("MCCL_ALGO={} names {}, which does not serve this {} of {} bytes: {}; "
                          "would do: {}, or MCCL_ALGO_STRICT=0",
                          table.algo, candidate.algorithm, collective_name(collective), bytes,
                          candidate.verdict, candidate.remedy)};
  }
  return Status::ok();
}

std::string to_string(const Explanation& explanation) {
  std::string text = fmt::format(
      "{} of {} bytes on {} ranks, profile {} (times are modelled, "
      "of one operation alone)\n",
      collective_name(explanation.collective), explanation.bytes, explanation.rank_count,
      explanation.profile);
  if (!explanation.rejection.empty()) text += fmt::format("{}\n", explanation.rejection);
  for (const std::string& name : explanation.ignored_names)
    text += fmt::format("MCCL_ALGO: {} is not a program of this library, ignored\n", name);
  for (const CandidateExplanation& candidate : explanation.candidates) {
    text += fmt::format("{} {}\n", candidate.is_chosen ? "*" : " ", candidate.algorithm);
    if (candidate.has_cost) text += fmt::format("    cost: {}\n", to_string(candidate.cost));
    if (candidate.has_cost && candidate.channel_sets > 1)
      text += fmt::format("    in a row: operations overlap, rotating over {} channel sets\n",
                          candidate.channel_sets);
    text +=
        fmt::format("    {}: {}\n", candidate.is_chosen ? "chosen" : "rejected", candidate.verdict);
    if (!candidate.remedy.empty()) text += fmt::format("    would do: {}\n", candidate.remedy);
  }
  return text;
}

}  // namespace mccl
