#include "lang/step_graph.h"

namespace mccl::lang {
namespace {

class Expander {
 public:
  explicit Expander(const Recording& recording) : recording_(recording) {}

  StepGraph run() {
    for (int index = 0; index < recording_.statements.count(); ++index) expand_statement(index);
    graph_.link_messages();
    return std::move(graph_);
  }

 private:
  void expand_statement(int index) {
    statement_ = index;
    const Statement& statement = recording_.statements[index];
    const Span& moving = recording_.source(statement, 0);
    const Span& result = recording_.destination(statement, 0);
    if (statement.kind == StatementKind::Fold) {
      add(Opcode::Fold, statement).lane_key = statement.placement.send_lane;
    } else if (moving.rank != result.rank) {
      expand_message(index);
    } else if (statement.kind == StatementKind::Copy) {
      add(Opcode::Copy, statement).lane_key = statement.placement.send_lane;
    } else {
      const bool is_in_place = recording_.source(statement, 1) == result;
      Node& node = is_in_place ? add(Opcode::Reduce, moving.rank, {moving}, {result})
                               : add(Opcode::Fold, statement);
      node.lane_key = statement.placement.send_lane;
      node.is_binary_reduce = true;
    }
  }

  void expand_message(int index) {
    const Statement& statement = recording_.statements[index];
    const Span& moving = recording_.source(statement, 0);
    const Span& result = recording_.destination(statement, 0);
    Message message;
    message.sender = moving.rank;
    message.receiver = result.rank;
    message.channel = statement.placement.channel;
    message.send_key = statement.placement.send_lane;
    message.recv_key = statement.placement.recv_lane;
    message.statement = index;
    const int number = graph_.messages.count();
    graph_.messages.push_back(message);
    add(Opcode::Send, moving.rank, {moving}, {}).send_message = number;
    if (statement.kind == StatementKind::Copy)
      add(Opcode::Recv, result.rank, {}, {result}).recv_message = number;
    else
      add(Opcode::RecvReduceCopy, result.rank, {recording_.source(statement, 1)}, {result})
          .recv_message = number;
  }

  Node& add(Opcode opcode, const Statement& statement) {
    const Span* spans = &recording_.spans[statement.first_span];
    return add(opcode, spans->rank, {spans, spans + statement.source_count},
               {spans + statement.source_count,
                spans + statement.source_count + statement.destination_count});
  }

  Node& add(Opcode opcode, int rank, const std::vector<Span>& sources,
            const std::vector<Span>& destinations) {
    Node node;
    node.rank = rank;
    node.statement = statement_;
    node.opcode = opcode;
    node.first_span = graph_.spans.count();
    node.source_count = static_cast<int>(sources.size());
    node.destination_count = static_cast<int>(destinations.size());
    graph_.spans.insert(graph_.spans.end(), sources.begin(), sources.end());
    graph_.spans.insert(graph_.spans.end(), destinations.begin(), destinations.end());
    graph_.nodes.push_back(node);
    return graph_.nodes.back();
  }

  const Recording& recording_;
  StepGraph graph_;
  int statement_ = 0;
};

}  // namespace

void StepGraph::link_messages() {
  for (int index = 0; index < nodes.count(); ++index) {
    if (nodes[index].send_message >= 0) messages[nodes[index].send_message].send_node = index;
    if (nodes[index].recv_message >= 0) messages[nodes[index].recv_message].recv_node = index;
  }
}

StepGraph expand(const Recording& recording) {
  return Expander(recording).run();
}

}  // namespace mccl::lang
