// Races, and the capture waits of law L3.
#pragma once

#include <vector>

#include "verify/findings.h"
#include "verify/places.h"
#include "verify/step_graph.h"

namespace mccl::judge {

// Adds a Race finding for every pair of neighbouring conflicting accesses without order, and to
// `proof` the capture waits that order the others. Waits already there (of the other aliasing)
// stay; of several sends of one lane only the last is kept, because a stream captures in order.
// `order` is a topological order of the graph, and proof.steps has the program's shape.
void check_hazards(const StepGraph& graph, const std::vector<Node>& order, const Places& places,
                   FindingList& findings, Proof& proof);

}  // namespace mccl::judge
