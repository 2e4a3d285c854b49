// Fusion is decided by what happens to the *value* that a receiving node stores: who reads it,
// whether the reader reads exactly its span, and whether it is overwritten (or scratch at the end)
// with nobody else reading it. The slots are those of an in-place call where the program serves
// one, and a value that is touched through the other buffer's name counts as read: what holds then
// holds in both views.
//
// Moving a send forward to its receive, or a receive back to its reduce, keeps every order: the
// send waits for nothing but the receive, and nothing but the reduce waits for the receive.
#include "lang/fuse.h"

namespace mccl::lang {
namespace {

constexpr int kNobody = -1;
constexpr int kSeveral = -2;

struct ValueUse {
  int reader = kNobody;        // the only node that reads any of it, or kSeveral
  int first_send = kNobody;    // first sending node that reads exactly its span
  int first_reduce = kNobody;  // the same for local binary reduces
  int dead_slot_count = 0;     // slots overwritten or scratch at the end
};

// What becomes of the value that each node with one destination stores.
class ValueUses {
 public:
  ValueUses(const StepGraph& graph, const Program& shape)
      : graph_(graph), slots_(shape, shape.in_place) {
    uses_.resize(graph.nodes.size());
    writer_.assign(static_cast<size_t>(slots_.count()), kNobody);
    buffer_.assign(static_cast<size_t>(slots_.count()), Buffer::Input);
    for (int node = 0; node < graph.nodes.count(); ++node) {
      for_each_read(graph, graph.nodes[node], [&](const Span& span) { read(node, span); });
      for_each_write(graph, graph.nodes[node], [&](const Span& span) { write(node, span); });
    }
    for (int slot = 0; slot < slots_.count(); ++slot)
      if (writer_[slot] >= 0 && buffer_[slot] == Buffer::Scratch)
        ++uses_[writer_[slot]].dead_slot_count;
  }

  const ValueUse& operator[](int node) const { return uses_[node]; }

  // Whether the stored value is needed by nobody but `reader`.
  bool dies_with(int node, int reader) const {
    const Span& span = graph_.destination(graph_.nodes[node], 0);
    return uses_[node].reader == reader && uses_[node].dead_slot_count == span.count;
  }

 private:
  void read(int reader, const Span& span) {
    const int first = slots_.first(span);
    const int writer = writer_[first];
    bool is_exact = writer >= 0;
    for (int slot = first; slot < first + span.count; ++slot) {
      is_exact = is_exact && writer_[slot] == writer;
      if (writer_[slot] < 0) continue;
      ValueUse& use = uses_[writer_[slot]];
      if (buffer_[slot] != span.buffer) use.reader = kSeveral;
      if (use.reader == kNobody) use.reader = reader;
      if (use.reader != reader) use.reader = kSeveral;
    }
    if (!is_exact || graph_.nodes[writer].destination_count != 1 ||
        graph_.destination(graph_.nodes[writer], 0) != span)
      return;
    const Node& node = graph_.nodes[reader];
    ValueUse& use = uses_[writer];
    if (node.opcode == Opcode::Send && use.first_send == kNobody) use.first_send = reader;
    if (node.is_binary_reduce && use.first_reduce == kNobody) use.first_reduce = reader;
  }

  void write(int writer, const Span& span) {
    const int first = slots_.first(span);
    for (int slot = first; slot < first + span.count; ++slot) {
      if (writer_[slot] >= 0) {
        ValueUse& use = uses_[writer_[slot]];
        if (buffer_[slot] == span.buffer)
          ++use.dead_slot_count;
        else
          use.reader = kSeveral;
      }
      writer_[slot] = writer;
      buffer_[slot] = span.buffer;
    }
  }

  const StepGraph& graph_;
  SlotMap slots_;
  Indexed<ValueUse> uses_;  // by node
  Indexed<int> writer_;     // by slot: node that wrote it last
  Indexed<Buffer> buffer_;  // by slot: name under which it was written
};

// Nodes that were joined into another one are dropped.
void drop_nodes(StepGraph& graph, const Indexed<uint8_t>& is_dropped) {
  int kept = 0;
  for (int node = 0; node < graph.nodes.count(); ++node)
    if (!is_dropped[node]) graph.nodes[kept++] = graph.nodes[node];
  graph.nodes.resize(static_cast<size_t>(kept));
  graph.link_messages();
}

bool keys_agree(int first, int second) {
  return first < 0 || second < 0 || first == second;
}

// recv + local reduce. The joined node stands where the reduce stood.
void merge_reduces(StepGraph& graph, const Program& shape, const FusionLimits& limits) {
  const ValueUses uses(graph, shape);
  Indexed<uint8_t> is_dropped(graph.nodes.size(), 0);
  for (int index = 0; index < graph.nodes.count(); ++index) {
    const Node receive = graph.nodes[index];
    const int reader = uses[index].first_reduce;
    if (receive.opcode != Opcode::Recv || reader < 0 || !uses.dies_with(index, reader)) continue;
    Node& reduce = graph.nodes[reader];
    const Message& message = graph.messages[receive.recv_message];
    if (limits.is_reduce_apart[receive.recv_message] || reduce.recv_message >= 0) continue;
    if (reduce.lane_key >= 0 && reduce.lane_key != message.recv_key) continue;
    const Span received = graph.destination(receive, 0);
    const Span result = graph.destination(reduce, 0);
    // The operand that is not the received one: in place, the other one is the destination itself.
    const Span first = graph.source(reduce, 0);
    const Span second = reduce.opcode == Opcode::Reduce ? result : graph.source(reduce, 1);
    reduce.opcode = Opcode::RecvReduceCopy;
    reduce.first_span = graph.spans.count();
    reduce.source_count = 1;
    reduce.destination_count = 1;
    reduce.recv_message = receive.recv_message;
    reduce.lane_key = -1;
    reduce.is_binary_reduce = false;
    reduce.is_merged = true;
    graph.spans.push_back(first == received ? second : first);
    graph.spans.push_back(result);
    is_dropped[index] = 1;
  }
  drop_nodes(graph, is_dropped);
}

// recv or recv_reduce_copy + send. The joined node stands where the receive stood.
void merge_sends(StepGraph& graph, const Program& shape, const FusionLimits& limits,
                 MessageGroups& groups) {
  const ValueUses uses(graph, shape);
  Indexed<uint8_t> is_dropped(graph.nodes.size(), 0);
  for (int index = 0; index < graph.nodes.count(); ++index) {
    Node& node = graph.nodes[index];
    const int sender = uses[index].first_send;
    if (node.opcode != Opcode::Recv && node.opcode != Opcode::RecvReduceCopy) continue;
    if (sender < 0 || limits.is_forward_apart[node.recv_message]) continue;
    const int sent = graph.nodes[sender].send_message;
    if (!keys_agree(graph.messages[node.recv_message].recv_key, graph.messages[sent].send_key) ||
        !groups.join(node.recv_message, sent))
      continue;
    node.send_message = sent;
    is_dropped[sender] = 1;
    if (node.opcode == Opcode::Recv) {
      node.opcode = Opcode::RecvCopySend;
    } else if (uses.dies_with(index, sender)) {
      node.opcode = Opcode::RecvReduceSend;
      node.destination_count = 0;
    } else {
      node.opcode = Opcode::RecvReduceCopySend;
    }
  }
  drop_nodes(graph, is_dropped);
}

}  // namespace

StepGraph fuse(const StepGraph& graph, const Program& shape, const FusionLimits& limits,
               MessageGroups& groups) {
  StepGraph fused = graph;
  merge_reduces(fused, shape, limits);
  merge_sends(fused, shape, limits, groups);
  return fused;
}

}  // namespace mccl::lang
