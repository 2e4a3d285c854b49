// Which plan serves a call, and what is told about it: the table's entry, unless that is a program
// from a file which the call does not fit; then the next one of its window.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/dtype.h"
#include "comm/call_fit.h"
#include "comm/communicator_core.h"
#include "ir/collective.h"
#include "planner/algorithm_list.h"
#include "planner/explain.h"
#include "planner/selection.h"

namespace mccl {

// Ranks do not know each other's lengths, so sizes mean nothing to an all_to_all, unless the user
// has said that all are equal: by naming a program from a file for it.
void CommunicatorCore::note_promised_blocks() {
  const std::span<const Algorithm* const> algorithms = endpoint_.library().algorithms();
  const Result<AlgorithmList> list = parse_algorithm_list(agreement_.table.algo, algorithms);
  if (!list.is_ok() || list.value().is_exclusion) return;
  for (const Algorithm* algorithm : endpoint_.library().loaded()) {
    if (!list_mentions(list.value(), {algorithm, 0})) continue;
    named_collectives_.insert(algorithm->collective);
    has_promised_all_to_all_ |=
        algorithm->collective == Collective::AllToAll && algorithm->rank_count_max == rank_count();
  }
}

Result<CommunicatorCore::Choice> CommunicatorCore::choose_plan(const Call& call, int64_t bytes) {
  const PlanTable& table = agreement_.table;
  if (call.collective == Collective::Custom) return choose_custom(call);
  const bool is_sizeless =
      call.collective == Collective::AllToAll && !has_promised_equal_blocks(call.collective);
  if (call.collective == Collective::AllToAll)  // else as find_sizeless_entry()
    bytes = is_sizeless
                ? kBytesUnlimited - 1
                : call.count_max * rank_count() * static_cast<int64_t>(dtype_bytes(call.dtype));
  const Result<const PlanWindow*> window = find_window(table, call.collective, bytes);
  if (!window.is_ok()) return window.status();
  Choice choice{
      .plan = nullptr, .fit = {}, .seen_rank = (rank_ - call.root + rank_count()) % rank_count()};
  // A barrier is nobody's all_reduce: no rule is asked, and nothing is counted against a file.
  const PlanEntry& last =
      window.value()->others.empty() ? window.value()->entry : window.value()->others.back();
  const bool is_plain =
      endpoint_.library().loaded().empty() ||
      (call.waits_for_earlier && find_choice(last.algorithm, catalog()).algorithm != nullptr);
  if (is_plain) {
    const Result<Plan*> plan = find_plan(call.collective, last);
    if (!plan.is_ok()) return plan.status();
    choice.plan = plan.value();
    return choice;
  }
  CallFacts facts = facts_of(call, choice.seen_rank);
  if (is_sizeless) facts.has_equal_blocks = false;
  for (const size_t refusal : refusals_outside(call.collective, *window.value(), bytes))
    ++refusals_[refusal].calls;
  std::string reason;  // of the last program that the call does not fit
  const auto try_entry = [&](const PlanEntry& entry) -> Result<bool> {
    const Result<Plan*> plan = find_plan(call.collective, entry);
    if (!plan.is_ok()) return plan.status();
    const LoadedProgram* loaded = plan.value()->algorithm->loaded;
    if (loaded != nullptr) choice.fit = find_fit(*loaded, facts, table.is_fit_strict);
    if (loaded != nullptr && choice.fit.rule != FitRule::Fits) {
      refuse(*loaded, choice.fit.rule, facts);
      reason = fmt::format("{}: {}", loaded->program.name,
                           describe_fit(choice.fit.rule, *loaded, facts).reason);
      choice.fit = {};
      return false;
    }
    choice.plan = plan.value();
    return true;
  };
  Result<bool> fits = try_entry(window.value()->entry);
  for (const PlanEntry& other : window.value()->others) {
    if (!fits.is_ok() || fits.value()) break;
    fits = try_entry(other);
  }
  if (!fits.is_ok()) return fits.status();
  if (choice.plan == nullptr)
    return Status(StatusCode::Unsupported, fmt::format("no program serves this {}: {}",
                                                       collective_name(call.collective), reason));
  if (!choice.plan->is_named && named_collectives_.contains(call.collective))
    MCCL_RETURN_IF_ERROR(check_strict_call(table, call.collective, bytes, facts,
                                           *choice.plan->algorithm,
                                           endpoint_.library().algorithms()));
  return choice;
}

Result<const Algorithm*> CommunicatorCore::find_custom(const std::string& program) const {
  std::string known;
  for (const Algorithm* algorithm : endpoint_.library().loaded()) {
    if (algorithm->collective != Collective::Custom) continue;
    if (algorithm->name == program && algorithm->rank_count_max == rank_count()) return algorithm;
    known += fmt::format("{}{} for {} ranks", known.empty() ? "" : ", ", algorithm->name,
                         algorithm->rank_count_max);
  }
  return Status(StatusCode::InvalidArgument,
                fmt::format("no custom collective called \"{}\" for {} ranks is loaded; loaded: {}",
                            program, rank_count(), known.empty() ? "none" : known));
}

// Named by the caller, so there is nothing to choose: all ranks cut it alike, from the same table.
Result<CommunicatorCore::Choice> CommunicatorCore::choose_custom(const Call& call) {
  const Algorithm& algorithm = *call.program;
  Choice choice{.plan = nullptr, .fit = {}, .seen_rank = rank_};
  choice.fit = find_fit(*algorithm.loaded, facts_of(call, rank_), false);
  if (choice.fit.rule != FitRule::Fits) {
    const FitWords words = describe_fit(choice.fit.rule, *algorithm.loaded, facts_of(call, rank_));
    return Status(StatusCode::Unsupported,
                  fmt::format("{}: {}; would do: {}", algorithm.name, words.reason, words.remedy));
  }
  choice.fit = {};
  auto entry = custom_entries_.find(&algorithm);
  if (entry == custom_entries_.end()) {
    const Algorithm* const one[] = {&algorithm};
    Selection selection = select_candidates(agreement_.table, Collective::Custom, {}, one);
    Candidate& candidate = selection.candidates.front();
    if (candidate.rule != PlanRule::Admitted)
      return Status(StatusCode::Unsupported, fmt::format("{}: {}; would do: {}", algorithm.name,
                                                         candidate.reason, candidate.remedy));
    candidate.entry.reason = "named by the call";
    entry = custom_entries_.emplace(&algorithm, std::move(candidate.entry)).first;
  }
  const Result<Plan*> plan = find_plan(Collective::Custom, entry->second);
  if (!plan.is_ok()) return plan.status();
  choice.plan = plan.value();
  return choice;
}

Result<CommunicatorCore::Plan*> CommunicatorCore::find_plan(Collective collective,
                                                            const PlanEntry& entry) {
  const auto found = plans_.find(&entry);
  if (found != plans_.end()) return &found->second;
  const std::span<const Algorithm* const> algorithms = endpoint_.library().algorithms();
  const ProgramChoice choice = find_choice(entry.algorithm, algorithms);
  MCCL_CHECK(choice.algorithm != nullptr);
  Result<std::shared_ptr<const ProvenProgram>> program = find_program(choice);
  if (!program.is_ok()) return program.status();
  Plan plan;
  plan.entry = &entry;
  plan.algorithm = choice.algorithm;
  plan.program = program.value();
  plan.shape = measure_shape(plan.program->program());
  plan.hash = plan_hash(*plan.entry, collective, rank_count());
  const Result<AlgorithmList> list = parse_algorithm_list(agreement_.table.algo, algorithms);
  plan.is_named = list.is_ok() && list_mentions(list.value(), choice);
  plan.counter = counters_.size();
  counters_.push_back(
      {.collective = collective, .program = plan.program->program().name, .reason = entry.reason});
  return &plans_.emplace(&entry, std::move(plan)).first->second;
}

Result<std::shared_ptr<const ProvenProgram>> CommunicatorCore::find_program(
    const ProgramChoice& choice) {
  const std::shared_ptr<const ProvenProgram>& forced = endpoint_.program();
  if (forced == nullptr || forced->program().collective != choice.algorithm->collective) {
    if (choice.algorithm->loaded == nullptr) return endpoint_.prover().find(choice, rank_count());
    std::shared_ptr<const ProvenProgram> proven =
        endpoint_.library().find_proven(*choice.algorithm);
    MCCL_CHECK(proven != nullptr);  // before this communicator met
    return proven;
  }
  if (forced->program().rank_count() == rank_count()) return forced;
  return Status(StatusCode::InvalidArgument,
                fmt::format("program {} is for {} ranks, the communicator has {}",
                            forced->program().name, forced->program().rank_count(), rank_count()));
}

const std::vector<size_t>& CommunicatorCore::refusals_outside(Collective collective,
                                                              const PlanWindow& window,
                                                              int64_t bytes) {
  const auto found = outside_.find(&window);
  if (found != outside_.end()) return found->second;
  std::vector<size_t>& numbers = outside_[&window];
  for (const LoadedRefusal& refusal :
       list_refusals(agreement_.table, collective, bytes, endpoint_.library().algorithms()))
    numbers.push_back(number_of_refusal({.collective = collective,
                                         .program = std::string(refusal.algorithm->name),
                                         .rule = refusal.rule,
                                         .reason = refusal.reason,
                                         .remedy = refusal.remedy}));
  return numbers;
}

size_t CommunicatorCore::number_of_refusal(RefusalCount refusal) {
  for (size_t number = 0; number < refusals_.size(); ++number)
    if (refusals_[number].program == refusal.program && refusals_[number].rule == refusal.rule)
      return number;
  notices_.push_back(
      fmt::format("{}: {} does not serve some calls of {}: {}; would do: {}; "
                  "mccl.stats() counts them",
                  title_, refusal.program, collective_name(refusal.collective), refusal.reason,
                  refusal.remedy));
  refusals_.push_back(std::move(refusal));
  return refusals_.size() - 1;
}

void CommunicatorCore::refuse(const LoadedProgram& loaded, FitRule rule, const CallFacts& facts) {
  const std::string name = fit_rule_name(rule);
  for (RefusalCount& refusal : refusals_)
    if (refusal.program == loaded.program.name && refusal.rule == name) {
      ++refusal.calls;
      return;
    }
  const FitWords words = describe_fit(rule, loaded, facts);
  const size_t number = number_of_refusal({.collective = loaded.program.collective,
                                           .program = loaded.program.name,
                                           .rule = name,
                                           .reason = words.reason,
                                           .remedy = words.remedy});
  ++refusals_[number].calls;
}

void CommunicatorCore::count_call(const Choice& choice, Call& call, uint64_t moved,
                                  CallOptions& options) {
  ProgramCount& counter = counters_[choice.plan->counter];
  ++counter.calls;
  counter.bytes += moved;
  if (choice.plan->algorithm->loaded == nullptr) return;
  counter.ragged_calls += choice.fit.is_ragged ? 1 : 0;
  counter.averaged_calls += choice.fit.averages ? 1 : 0;
  if (!choice.fit.copies_input) return;
  const int64_t copied =
      copy_to_fit(choice.plan->program->program(), choice.seen_rank, call, options.stand_in);
  if (copied == 0) return;  // this rank has no memory that could be shared
  if (counter.copied_calls++ == 0)
    notices_.push_back(
        fmt::format("{}: {} claims {} calls only; others copy their input, and "
                    "mccl.stats() counts them",
                    title_, counter.program,
                    choice.plan->program->program().in_place ? "in-place" : "out-of-place"));
  counter.copied_bytes += static_cast<uint64_t>(copied);
}

std::vector<LoadedCount> CommunicatorCore::count_loaded() const {
  std::vector<LoadedCount> counts;
  for (const Algorithm* algorithm : endpoint_.library().loaded()) {
    LoadedCount count{.program = std::string(algorithm->name),
                      .collective = algorithm->collective,
                      .file = algorithm->loaded->file,
                      .rank_count = algorithm->rank_count_max};
    for (const auto& [entry, plan] : plans_)
      if (plan.algorithm == algorithm) count.calls += counters_[plan.counter].calls;
    counts.push_back(std::move(count));
  }
  return counts;
}

std::string CommunicatorCore::describe_loaded() const {
  const std::span<const Algorithm* const> loaded = endpoint_.library().loaded();
  const auto usable = std::count_if(
      loaded.begin(), loaded.end(),
      [this](const Algorithm* algorithm) { return algorithm->rank_count_max == rank_count(); });
  return fmt::format(
      "programs from files: loaded {}, proven {}, used 0 so far; {} of them {} for "
      "{} rank{}",
      loaded.size(), endpoint_.library().proven_count(), usable, usable == 1 ? "is" : "are",
      rank_count(), rank_count() == 1 ? "" : "s");
}

std::string CommunicatorCore::describe_served() {
  std::string text;
  endpoint_.driver().with_engine(
      [&] {
        for (const LoadedCount& count : count_loaded())
          if (count.calls > 0)
            text += fmt::format("{}{} served {} call{}", text.empty() ? "" : ", ", count.program,
                                count.calls, count.calls == 1 ? "" : "s");
      },
      true);
  return "programs from files: " + (text.empty() ? "none served a call" : text);
}

std::string CommunicatorCore::explain(Collective collective, int64_t bytes,
                                      const std::optional<CallFacts>& facts) const {
  return to_string(
      mccl::explain(agreement_.table, collective, bytes, endpoint_.library().algorithms(), facts));
}

}  // namespace mccl
