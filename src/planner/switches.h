// Inside the planner: what an algorithm asks of the uplinks of switches, and which groups of ranks
// stand at one switch.
#pragma once

#include <vector>

#include "algorithms/catalog.h"
#include "planner/plan_table.h"

namespace mccl {

// Whether an uplink can be the limit: several switches, and uplinks of a known width.
bool has_narrow_uplinks(const PlanTable& header);

// What leaves or enters the busiest switch, whichever is more, over S. Where the algorithm does not
// say what travels where: all that its ranks move. `choice` serves the rank count, whose cost
// `cost` is.
Fraction busiest_uplink(const PlanTable& header, const ProgramChoice& choice,
                        const AlgorithmCost& cost);

// Whether some group of `group_size` neighbours stands at more than one switch.
bool do_groups_straddle(const PlanTable& header, int group_size);

// The group sizes of a family that are worth comparing, ascending and at least one: with narrow
// uplinks those whose groups stand at one switch each, else some around the root of the rank count.
std::vector<int> find_group_sizes(const PlanTable& header, const Algorithm& family);

}  // namespace mccl
