// The phases of the judgement, in order; each needs what the ones before it have proven.
//
//   structure     one rank at a time                                        structure.cc
//   pairing       messages of every stream, in FIFO order                   step_graph.cc
//   deadlock      a topological order with two messages outstanding         step_graph.cc
//   then for each aliasing that the program claims:
//   hazards       conflicting accesses are ordered; capture waits           hazards.cc
//   values        symbolic execution, postcondition, origins, trees         values.cc
//
// A phase with findings ends the judgement of its aliasing, because later phases would describe the
// same fault in stranger words. Tests: test/unit/verify.
#include "verify/verify.h"

#include <algorithm>
#include <optional>

#include "verify/findings.h"
#include "verify/hazards.h"
#include "verify/places.h"
#include "verify/step_graph.h"
#include "verify/structure.h"
#include "verify/trees.h"
#include "verify/values.h"

namespace mccl {
namespace judge {
namespace {

constexpr int kCredits = 2;  // messages that every open stream always owns (law L1)

class Judgement {
 public:
  Judgement(const Program& program, RankTrees rank_trees)
      : program_(program), rank_trees_(rank_trees), findings_(!program.out_of_place) {}

  Verdict run() {
    judge();
    Verdict verdict;
    verdict.findings = findings_.take();
    if (verdict.is_proven() || verdict.computes_wrongly()) verdict.proof = std::move(proof_);
    return verdict;
  }

 private:
  void judge() {
    check_structure(program_, findings_);
    if (!findings_.is_empty()) return;
    const StepGraph graph(program_, findings_);
    if (!findings_.is_empty()) return;
    const std::vector<Node> order = graph.topological_order(kCredits);
    const auto stuck_count = graph.node_count() - static_cast<Node>(order.size());
    if (stuck_count > 0) {
      std::vector<TraceLine> cycle = graph.describe_cycle(order, kCredits);
      const FindingPlace place = cycle.front().place;
      return findings_.add(Rule::Deadlock, place,
                           counted(stuck_count, "step") + " of " +
                               std::to_string(graph.node_count()) +
                               " can never run with two messages outstanding per stream",
                           std::move(cycle));
    }
    const bool one_is_enough = graph.topological_order(1).size() == order.size();
    proof_.credits_needed = one_is_enough ? 1 : kCredits;
    shape_proof();

    Promises promises(program_);
    TreePool trees(promises.leaf_count(), promises.leaf_names());
    std::optional<Execution> out_of_place;
    std::optional<Execution> in_place;
    if (program_.out_of_place) out_of_place = judge_mode(graph, order, false, promises, trees);
    if (program_.in_place) in_place = judge_mode(graph, order, true, promises, trees);
    if (!trees.is_within_limit()) return add_tree_limit();
    if (!findings_.is_empty()) return;
    if (out_of_place && in_place)
      check_modes_agree(graph, trees, *out_of_place, *in_place, findings_);
    for (const Tree tree : (out_of_place ? *out_of_place : *in_place).output_trees)
      proof_.output_trees.push_back(trees.digest(tree));
  }

  std::optional<Execution> judge_mode(const StepGraph& graph, const std::vector<Node>& order,
                                      bool in_place, Promises& promises, TreePool& trees) {
    findings_.set_in_place(in_place);
    const Places places(program_, in_place);
    const size_t count_before = findings_.report_count();
    check_hazards(graph, order, places, findings_, proof_);
    if (findings_.report_count() > count_before || findings_.is_full()) return std::nullopt;
    return execute_symbolically(graph, order, places, promises, trees, rank_trees_, findings_,
                                proof_);
  }

  void shape_proof() {
    for (const RankProgram& rank : program_.ranks) {
      auto& lanes = proof_.steps.emplace_back();
      for (const Lane& lane : rank.lanes) lanes.emplace_back(lane.steps.size());
    }
  }

  // Ids are worthless beyond the limit, and so are findings made of them.
  void add_tree_limit() {
    findings_ = FindingList(findings_.in_place());
    findings_.add(
        Rule::Structure, {},
        "the program combines contributions in more different ways than a proof can hold");
  }

  const Program& program_;
  RankTrees rank_trees_;
  FindingList findings_;
  Proof proof_;
};

}  // namespace
}  // namespace judge

const char* rule_name(Rule rule) {
  switch (rule) {
    case Rule::Structure:
      return "structure";
    case Rule::Pairing:
      return "pairing";
    case Rule::Deadlock:
      return "deadlock";
    case Rule::Race:
      return "race";
    case Rule::Unwritten:
      return "unwritten";
    case Rule::InputWritten:
      return "input_written";
    case Rule::Postcondition:
      return "postcondition";
    case Rule::Origins:
      return "origins";
    case Rule::Trees:
      return "trees";
  }
  return "unknown";
}

bool Verdict::computes_wrongly() const {
  // Where the list is full something else may have been left unsaid.
  return !findings.empty() && findings.size() < kFindingsMax &&
         std::all_of(findings.begin(), findings.end(), [](const Finding& finding) {
           return finding.rule == Rule::Postcondition || finding.rule == Rule::Trees;
         });
}

std::string Verdict::to_string() const {
  std::string text;
  for (const Finding& finding : findings) {
    if (!text.empty()) text += "\n";
    text += std::string(rule_name(finding.rule)) + (finding.in_place ? " (in place)" : "") + ": " +
            finding.text + "\n";
    for (const std::string& line : finding.trace) text += "  " + line + "\n";
  }
  return text;
}

Verdict verify(const Program& program, RankTrees rank_trees) {
  return judge::Judgement(program, rank_trees).run();
}

uint64_t rank_order_tree(int rank_count) {
  judge::TreePool trees(rank_count);
  std::vector<judge::Tree> leaves;
  for (judge::Tree rank = 0; rank < rank_count; ++rank) leaves.push_back(rank);
  return trees.digest(trees.fold(std::move(leaves)));
}

}  // namespace mccl
