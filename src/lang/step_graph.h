// The program between the author's statements and the lowered lanes: nodes (steps to be) and the
// messages between them. The order of the nodes is the order of the statements; it is a legal order
// of execution, also after fusion: a node stands behind everything it waits for.
#pragma once

#include "lang/recording.h"

namespace mccl::lang {

// A step to be. Spans lie in StepGraph::spans, sources first.
struct Node {
  int rank = 0;
  int statement = 0;
  Opcode opcode = Opcode::Copy;
  int first_span = 0;
  int source_count = 0;
  int destination_count = 0;
  int recv_message = -1;
  int send_message = -1;
  int lane_key = -1;              // the author's, of a local statement
  bool is_binary_reduce = false;  // a local reduce, in place or as a fold of two sources
  bool is_merged = false;         // a receive that fusion moved behind later statements

  bool is_local() const { return recv_message < 0 && send_message < 0; }
  bool is_forwarding() const { return recv_message >= 0 && send_message >= 0; }
};

struct Message {
  int sender = 0;
  int receiver = 0;
  int channel = -1;  // the author's
  int send_key = -1;
  int recv_key = -1;
  int statement = 0;
  int send_node = -1;
  int recv_node = -1;
};

struct StepGraph {
  Indexed<Span> spans;
  Indexed<Node> nodes;
  Indexed<Message> messages;

  const Span& source(const Node& node, int index) const { return spans[node.first_span + index]; }
  const Span& destination(const Node& node, int index) const {
    return spans[node.first_span + node.source_count + index];
  }
  // Writes the nodes' numbers into the messages.
  void link_messages();
};

// Calls visit(span) for each span that the node reads from local memory before it writes.
template <typename Visit>
void for_each_read(const StepGraph& graph, const Node& node, const Visit& visit) {
  for (int index = 0; index < node.source_count; ++index) visit(graph.source(node, index));
  if (node.opcode == Opcode::Reduce) visit(graph.destination(node, 0));
}

template <typename Visit>
void for_each_write(const StepGraph& graph, const Node& node, const Visit& visit) {
  for (int index = 0; index < node.destination_count; ++index)
    visit(graph.destination(node, index));
}

// The statements one by one, nothing fused.
StepGraph expand(const Recording& recording);

}  // namespace mccl::lang
