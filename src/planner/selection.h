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
  Topology,     // from a file: it names another topology than MCCL_TOPOLOGY
  Protocol,     // from a file: MCCL_PROTO does not admit its protocol
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
  // The list names programs from files alone: built-ins serve what those do not.
  bool names_loaded_only = false;
};

// Applies every rule that does not depend on the size of a call. `header` is a table whose
// collectives are not looked at.
Selection select_candidates(const PlanTable& header, Collective collective,
                            const AlgorithmList& list,
                            std::span<const Algorithm* const> algorithms);

// The admitted programs from files whose window a call of `bytes` lies in: the one that goes first,
// first.
std::vector<const Candidate*> find_loaded(const Selection& selection, int64_t bytes);

// A rule's name in counters: "rank_count".
const char* plan_rule_name(PlanRule rule);

// Why a program from a file is not among those of a window: the rule, in words, and the smallest
// change that satisfies it.
struct LoadedRefusal {
  const Algorithm* algorithm = nullptr;
  std::string rule;
  std::string reason;
  std::string remedy;
};
// Of the programs from files that compute the collective, in the order of `algorithms`.
std::vector<LoadedRefusal> list_refusals(const PlanTable& table, Collective collective,
                                         int64_t bytes,
                                         std::span<const Algorithm* const> algorithms);

// "64 bytes or more and less than 4096".
std::string window_text(const ProgramUse& use);

// The admitted candidate, of those that are no program from a file, for a call of `bytes`, or null.
const Candidate* choose(const Selection& selection, const PlanTable& header, int64_t bytes);

CostTerms cost_of(const Candidate& candidate, const PlanTable& header, int64_t bytes);

// The name of the paper's program for a call of `bytes`.
const char* paper_choice(int64_t bytes);

// Collectives in the order of their first program.
std::vector<Collective> collectives_of(std::span<const Algorithm* const> algorithms);

}  // namespace mccl
