// Distributes the nodes of each rank over lanes. The steps of a lane stand in schedule order.
#pragma once

#include "lang/channels.h"
#include "lang/chunk_dag.h"
#include "lang/step_graph.h"

namespace mccl::lang {

struct PlannedLane {
  int send_peer = -1;
  int recv_peer = -1;
  int channel = 0;
  Indexed<int> nodes;
};

struct LanePlan {
  Indexed<Indexed<PlannedLane>> ranks;  // lanes in the order of their first steps
  Indexed<StepRef> place;               // by node
};

// Whether local nodes that touch nothing that others touch have lanes of their own, or stand at the
// ends of other lanes; then they must be last in the order.
enum class IdleNodes : uint8_t { Apart, Shared };

// Whether nothing orders the local node against others.
bool is_idle(const StepGraph& graph, const ChunkDag& dag, int node);

LanePlan plan_lanes(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels,
                    const Indexed<int>& order, int rank_count, IdleNodes idle_nodes);

// Dependences of every node (sorted, at most one per lane) that neither the order of its lane nor
// another dependence implies. Implications are followed for a bounded number of steps, so that the
// time stays linear; a dependence too many is harmless.
Indexed<std::vector<StepRef>> minimal_dependences(const StepGraph& graph, const ChunkDag& dag,
                                                  const LanePlan& plan);

}  // namespace mccl::lang
