// Finds one order of all nodes of all ranks that is itself an execution: every node stands behind
// what it waits for, each stream's messages are taken in the order in which they are given, and a
// stream never holds more than two (law L1). Lanes in this order cannot deadlock: their waits are
// monotone, so one execution that ends means that all end.
#pragma once

#include "lang/channels.h"
#include "lang/chunk_dag.h"
#include "lang/step_graph.h"

namespace mccl::lang {

constexpr int kMessagesPerStream = 2;

struct Schedule {
  Indexed<int> order;  // nodes; complete when nothing is blocked
  // Nodes that could not go on, each for one of two reasons.
  std::vector<int> blocked_by_order;   // their message is behind one that nobody takes
  std::vector<int> blocked_by_credit;  // their stream is full
  // Receiving nodes of the messages in front, which wait for something else.
  std::vector<int> in_front;
  bool is_complete() const { return blocked_by_order.empty() && blocked_by_credit.empty(); }
};

// Nodes in order of dependence depth (longest path; ties by statement) as far as streams allow.
Schedule schedule(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels);

}  // namespace mccl::lang
