// Inside the planner: the rules that admit or reject a program, shared by the builder of the table
// and by `explain`, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "algorithms/catalog.h"
#include "planner/algorithm_list.h"
#include "planner/cost_model.h"
#include "planner/plan_table.h"

namespace mccl {

// In the order in which they are asked; a candidate carries the first that rejects it.
enum class PlanRule : uint8_t {
  Admitted,
  RankCount,    // the program does not serve so many ranks, or not in such groups
  Canonical,    // MCCL_DETERMINISTIC=canonical, and it does not reduce in rank order
  ParkLimit,    // its minima do not fit MCCL_PARK_LIMIT
  Excluded,     // MCCL_ALGO excludes it
  NotListed,    // MCCL_ALGO names others
  EqualBlocks,  // it needs equal blocks, and MCCL_ALGO does not name it
  Straddles,    // its groups straddle switches with narrow uplinks, and MCCL_ALGO does not name it
  PaperRule,    // profile paper has a rule of its own
};

struct Candidate {
  ProgramChoice choice;
  std::string name;  // to_string(choice)
  AlgorithmCost cost;
  UplinkLoad uplink;
  PlanEntry entry;  // its reason is empty
  PlanRule rule = PlanRule::Admitted;
  std::string reason;  // why rejected
  std::string remedy;  // the smallest change that would admit it
};

struct Selection {
  std::vector<Candidate> candidates;  // of one collective, in catalogue order, then by group size
  bool is_listed = false;             // MCCL_ALGO names a program of the collective
  bool has_paper_rule = false;        // the paper's switch decides between two of them
  std::string fallback;               // why the list of names was set aside; empty: it was not
};

// Applies every rule that does not depend on the size of a call. `header` is a table whose
// collectives are not looked at.
Selection select_candidates(const PlanTable& header, Collective collective,
                            const AlgorithmList& list,
                            std::span<const Algorithm* const> algorithms);

// The admitted candidate for a call of `bytes`, or null.
const Candidate* choose(const Selection& selection, const PlanTable& header, int64_t bytes);

CostTerms cost_of(const Candidate& candidate, const PlanTable& header, int64_t bytes);

// The name of the paper's program for a call of `bytes`.
const char* paper_choice(int64_t bytes);

// Collectives in the order of their first program.
std::vector<Collective> collectives_of(std::span<const Algorithm* const> algorithms);

}  // namespace mccl
