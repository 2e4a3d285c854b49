// Why this program: every candidate for a call, with its cost and the first rule that rejected it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalog.h"
#include "planner/cost_model.h"
#include "planner/plan_table.h"
#include "planner/program_fit.h"

namespace mccl {

struct CandidateExplanation {
  std::string algorithm;
  bool is_chosen = false;
  bool has_cost = false;  // false: the program does not serve the rank count
  CostTerms cost;         // modelled, of one operation alone: what the choice is made by
  int channel_sets = 1;   // operations in a row rotate over them
  std::string verdict;    // chosen: the entry's reason; else the first rule that rejected it
  std::string remedy;     // chosen: empty; else the smallest change that satisfies that rule
};

struct Explanation {
  Collective collective = Collective::AllReduce;
  int64_t bytes = 0;
  int rank_count = 1;
  std::string profile;
  std::string rejection;                         // why no program may run; else empty
  std::vector<std::string> ignored_names;        // of MCCL_ALGO: no program of ours
  std::vector<CandidateExplanation> candidates;  // the chosen one first, then catalogue order
};

// Pure; `table` may come from another rank. `bytes` >= 0. Without `call` the rules that depend on
// more than the size are not asked. For an all_to_all whose blocks need not be equal, `bytes` is
// what find_sizeless_entry() goes by.
Explanation explain(const PlanTable& table, Collective collective, int64_t bytes,
                    std::span<const Algorithm* const> algorithms = catalog(),
                    const std::optional<CallFacts>& call = {});

// Ok, or under MCCL_ALGO_STRICT the error of a call that `chosen` serves although MCCL_ALGO names
// programs from files of its collective: the first of them, the rule and the remedy.
Status check_strict_call(const PlanTable& table, Collective collective, int64_t bytes,
                         const CallFacts& call, const Algorithm& chosen,
                         std::span<const Algorithm* const> algorithms);

// Several lines, for people.
std::string to_string(const Explanation& explanation);

}  // namespace mccl
