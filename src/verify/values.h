// Symbolic execution: what every chunk holds, as a tree of contributions with an origin.
#pragma once

#include <vector>

#include "verify/findings.h"
#include "verify/places.h"
#include "verify/promises.h"
#include "verify/step_graph.h"
#include "verify/trees.h"

namespace mccl::judge {

// What a chunk holds. The tree is kUnwritten before the first write, and kUnknown where a finding
// has already been made, so that one fault is told once.
struct Value {
  static constexpr Tree kUnwritten = -1;
  static constexpr Tree kUnknown = -2;

  int32_t origin = Places::kNoOrigin;
  Tree tree = kUnwritten;
  bool operator==(const Value&) const = default;
  bool is_known() const { return tree >= 0; }
};

// What one execution found besides findings.
struct Execution {
  std::vector<Value> messages;        // of all sending steps in node order, chunk by chunk
  std::vector<size_t> message_first;  // per node, and one past the last
  std::vector<Tree> output_trees;     // per Promises::equality_class(), of its first rank
};

// Executes the steps in `order` (a topological order of a program without races, so any will do)
// and checks Unwritten, InputWritten, Origins, Postcondition and Trees. Fills the origins of
// proof.steps.
Execution execute_symbolically(const StepGraph& graph, const std::vector<Node>& order,
                               const Places& places, Promises& promises, TreePool& trees,
                               FindingList& findings, Proof& proof);

// Trees findings for messages and outputs that differ between the two aliasing modes. When none
// does, every mixture of modes among the ranks is proven too: a rank cannot tell which its peers
// run.
void check_modes_agree(const StepGraph& graph, const TreePool& trees, const Execution& out_of_place,
                       const Execution& in_place, FindingList& findings);

}  // namespace mccl::judge
