// Building the graph is linear in the steps; a topological order is one pass of Kahn's algorithm.
//
// Message j of a stream goes from its j-th sending step to its j-th receiving step, because streams
// are FIFO and each end belongs to one lane. With k messages outstanding the sender of message j
// also waits until message j - k was taken. All waits are monotone and a step is atomic (law L1),
// so the network is confluent: an iteration ends, in every schedule, exactly when this graph has no
// cycle.
#include "verify/step_graph.h"

#include <algorithm>
#include <tuple>

#include "ir/opcode.h"
#include "verify/structure.h"

namespace mccl::judge {

struct StepGraph::Stream {
  int sender = 0;
  int receiver = 0;
  int channel = 0;
  int send_lane = -1;  // numbered over all ranks; -1: nobody owns the end
  int recv_lane = -1;
};

StepGraph::StepGraph(const Program& program, FindingList& findings) : program_(program) {
  number_nodes();
  add_dependences();
  pair_messages(findings);
}

void StepGraph::number_nodes() {
  for (int rank = 0; rank < program_.rank_count(); ++rank) {
    rank_first_lane_.push_back(static_cast<int32_t>(lane_rank_.size()));
    for (const Lane& lane : program_.ranks[index(rank)].lanes) {
      lane_first_.push_back(node_count());
      node_lane_.resize(node_lane_.size() + lane.steps.size(),
                        static_cast<int32_t>(lane_rank_.size()));
      lane_rank_.push_back(rank);
    }
  }
  lane_first_.push_back(node_count());
}

StepRef StepGraph::ref_of(Node node) const {
  const int lane = lane_of(node);
  return {lane - rank_first_lane_[index(rank_of(node))], node - lane_first_[index(lane)]};
}

const Step& StepGraph::step_of(Node node) const {
  const StepRef ref = ref_of(node);
  return program_.ranks[index(rank_of(node))].lanes[index(ref.lane)].steps[index(ref.step)];
}

std::string StepGraph::describe(Node node) const {
  return to_string(program_, rank_of(node), ref_of(node));
}

FindingPlace StepGraph::place_of(Node node) const {
  const StepRef ref = ref_of(node);
  return {rank_of(node), ref.lane, ref.step};
}

void StepGraph::add_dependences() {
  std::vector<int32_t> dependent_count(index(node_count()) + 1, 0);
  for (Node node = 0; node < node_count(); ++node) {
    dependence_first_.push_back(static_cast<int32_t>(dependences_.size()));
    for (const StepRef& ref : step_of(node).dependences) {
      const int lane = rank_first_lane_[index(rank_of(node))] + ref.lane;
      dependences_.push_back(lane_first_[index(lane)] + ref.step);
      ++dependent_count[index(dependences_.back()) + 1];
    }
  }
  dependence_first_.push_back(static_cast<int32_t>(dependences_.size()));
  for (size_t i = 1; i < dependent_count.size(); ++i) dependent_count[i] += dependent_count[i - 1];
  dependent_first_ = dependent_count;
  dependents_.resize(dependences_.size());
  for (Node node = 0; node < node_count(); ++node)
    for (const Node dependence : dependences_of(node))
      dependents_[index(dependent_count[index(dependence)]++)] = node;
}

std::vector<StepGraph::Stream> StepGraph::collect_streams() const {
  std::vector<Stream> ends;
  for (size_t lane_number = 0; lane_number < lane_rank_.size(); ++lane_number) {
    const int rank = lane_rank_[lane_number];
    const int number = static_cast<int>(lane_number);
    const Lane& lane =
        program_.ranks[index(rank)].lanes[lane_number - index(rank_first_lane_[index(rank)])];
    if (lane.send_peer != -1) ends.push_back({rank, lane.send_peer, lane.channel, number, -1});
    if (lane.recv_peer != -1) ends.push_back({lane.recv_peer, rank, lane.channel, -1, number});
  }
  const auto key = [](const Stream& stream) {
    return std::tuple(stream.sender, stream.receiver, stream.channel);
  };
  std::stable_sort(ends.begin(), ends.end(),
                   [&](const Stream& a, const Stream& b) { return key(a) < key(b); });
  std::vector<Stream> streams;
  for (const Stream& end : ends) {
    if (streams.empty() || key(streams.back()) != key(end)) {
      streams.push_back(end);
      continue;
    }
    streams.back().send_lane = std::max(streams.back().send_lane, end.send_lane);
    streams.back().recv_lane = std::max(streams.back().recv_lane, end.recv_lane);
  }
  return streams;
}

void StepGraph::pair_messages(FindingList& findings) {
  sender_.assign(index(node_count()), kNoNode);
  receiver_.assign(index(node_count()), kNoNode);
  last_send_.assign(index(node_count()), kNoNode);
  next_send_.assign(index(node_count()), kNoNode);
  for (const Stream& stream : collect_streams()) pair_stream(stream, findings);
}

std::vector<Node> StepGraph::messages_of_lane(int lane, bool sends) const {
  std::vector<Node> messages;
  if (lane == -1) return messages;
  for (Node node = lane_first_[index(lane)]; node < lane_first_[index(lane) + 1]; ++node) {
    const OpcodeRow& row = opcode_row(step_of(node).opcode);
    if (sends ? row.sends : row.receives) messages.push_back(node);
  }
  return messages;
}

std::string StepGraph::end_text(int lane, int rank, size_t count, bool sends) const {
  const char* verb = sends ? "sends" : "receives";
  if (lane == -1) return "no lane of rank " + std::to_string(rank) + " " + verb;
  return lane_name(rank, lane - rank_first_lane_[index(rank)]) + " " + verb + " " +
         counted(static_cast<int64_t>(count), "message");
}

void StepGraph::pair_stream(const Stream& stream, FindingList& findings) {
  const std::vector<Node> sends = messages_of_lane(stream.send_lane, true);
  const std::vector<Node> receives = messages_of_lane(stream.recv_lane, false);
  const std::string name = "stream from rank " + std::to_string(stream.sender) + " to rank " +
                           std::to_string(stream.receiver) + " on channel " +
                           std::to_string(stream.channel) + ": ";
  if (sends.size() != receives.size()) {
    // At the first message that has no other end.
    const std::vector<Node>& more = sends.size() > receives.size() ? sends : receives;
    const Node first = more[std::min(sends.size(), receives.size())];
    return findings.add(Rule::Pairing, place_of(first),
                        name + end_text(stream.send_lane, stream.sender, sends.size(), true) +
                            ", " +
                            end_text(stream.recv_lane, stream.receiver, receives.size(), false));
  }
  for (size_t message = 0; message < sends.size(); ++message) {
    const int sent = step_chunk_count(step_of(sends[message]));
    const int received = step_chunk_count(step_of(receives[message]));
    if (sent != received)
      return findings.add(Rule::Pairing, place_of(receives[message]),
                          name + "message " + std::to_string(message) + " is sent with " +
                              counted(sent, "chunk") + " and received with " +
                              std::to_string(received),
                          {trace_line(sends[message]), trace_line(receives[message])});
    receiver_[index(sends[message])] = receives[message];
    sender_[index(receives[message])] = sends[message];
    if (message == 0) continue;
    last_send_[index(sends[message])] = sends[message - 1];
    next_send_[index(sends[message - 1])] = sends[message];
  }
}

Node StepGraph::credit_giver_of(Node node, int credits) const {
  if (receiver_of(node) == kNoNode) return kNoNode;
  for (int i = 0; i < credits && node != kNoNode; ++i) node = last_send_[index(node)];
  return node == kNoNode ? kNoNode : receiver_of(node);
}

template <typename Visit>
void StepGraph::visit_waits(Node node, int credits, Visit visit) const {
  if (!is_first_of_lane(node)) visit(node - 1, "the step before it");
  for (const Node dependence : dependences_of(node)) visit(dependence, "its dependence");
  if (sender_of(node) != kNoNode) visit(sender_of(node), "its message, sent by");
  const Node giver = credit_giver_of(node, credits);
  if (giver != kNoNode) visit(giver, "its credit, given by");
}

template <typename Visit>
void StepGraph::visit_waiters(Node node, int credits, Visit visit) const {
  if (node + 1 < node_count() && lane_of(node + 1) == lane_of(node)) visit(node + 1);
  for (const Node dependent : row(dependent_first_, dependents_, node)) visit(dependent);
  if (receiver_of(node) != kNoNode) visit(receiver_of(node));
  Node send = sender_of(node);
  for (int i = 0; i < credits && send != kNoNode; ++i) send = next_send_[index(send)];
  if (send != kNoNode) visit(send);
}

std::vector<Node> StepGraph::topological_order(int credits) const {
  std::vector<int32_t> wait_count(index(node_count()), 0);
  std::vector<Node> order;
  order.reserve(index(node_count()));
  for (Node node = 0; node < node_count(); ++node) {
    visit_waits(node, credits, [&](Node, const char*) { ++wait_count[index(node)]; });
    if (wait_count[index(node)] == 0) order.push_back(node);
  }
  for (size_t next = 0; next < order.size(); ++next)
    visit_waiters(order[next], credits, [&](Node waiter) {
      if (--wait_count[index(waiter)] == 0) order.push_back(waiter);
    });
  return order;
}

std::vector<TraceLine> StepGraph::describe_cycle(const std::vector<Node>& order,
                                                 int credits) const {
  std::vector<bool> is_done(index(node_count()), false);
  for (const Node node : order) is_done[index(node)] = true;
  Node node = 0;
  while (is_done[index(node)]) ++node;

  // Each stuck step waits for a stuck step, so walking back along the first of them meets a cycle.
  std::vector<Node> path;
  std::vector<const char*> reasons;
  std::vector<int32_t> place_on_path(index(node_count()), -1);
  while (place_on_path[index(node)] == -1) {
    place_on_path[index(node)] = static_cast<int32_t>(path.size());
    path.push_back(node);
    Node next = kNoNode;
    const char* reason = "";
    visit_waits(node, credits, [&](Node wait, const char* wait_reason) {
      if (next != kNoNode || is_done[index(wait)]) return;
      next = wait;
      reason = wait_reason;
    });
    reasons.push_back(reason);
    node = next;
  }
  std::vector<TraceLine> trace;
  for (size_t i = index(place_on_path[index(node)]); i < path.size(); ++i) {
    const Node next = i + 1 < path.size() ? path[i + 1] : node;
    const StepRef ref = ref_of(next);
    trace.push_back({describe(path[i]) + " waits for " + reasons[i] + " " +
                         step_name(rank_of(next), ref.lane, ref.step),
                     place_of(path[i])});
  }
  return trace;
}

HappensBefore::HappensBefore(const StepGraph& graph, const std::vector<Node>& order)
    : graph_(graph),
      position_(static_cast<size_t>(graph.node_count())),
      visited_in_(static_cast<size_t>(graph.node_count()), -1) {
  for (size_t place = 0; place < order.size(); ++place)
    position_[static_cast<size_t>(order[place])] = static_cast<int32_t>(place);
}

bool HappensBefore::reaches(Node first, Node node) const {
  return node >= first && graph_.lane_of(node) == graph_.lane_of(first);
}

void HappensBefore::push(Node first, Node node) {
  int32_t& visited_in = visited_in_[static_cast<size_t>(node)];
  if (visited_in == search_ ||
      position_[static_cast<size_t>(node)] <= position_[static_cast<size_t>(first)])
    return;
  visited_in = search_;
  stack_.push_back(node);
}

bool HappensBefore::precedes(Node first, Node second) {
  if (reaches(first, second)) return true;
  if (search_ == INT32_MAX) {
    std::fill(visited_in_.begin(), visited_in_.end(), -1);
    search_ = 0;
  }
  ++search_;
  stack_.clear();
  push(first, second);
  while (!stack_.empty()) {
    const Node node = stack_.back();
    stack_.pop_back();
    const Node sender = graph_.sender_of(node);
    const auto dependences = graph_.dependences_of(node);
    if (sender != kNoNode && reaches(first, sender)) return true;
    for (const Node dependence : dependences)
      if (reaches(first, dependence)) return true;
    // The last one pushed is looked at first. The step before in the lane cannot be `first` or
    // later in its lane: then `node` itself would have been.
    if (!graph_.is_first_of_lane(node)) push(first, node - 1);
    for (const Node dependence : dependences) push(first, dependence);
    if (sender != kNoNode) push(first, sender);
  }
  return false;
}

}  // namespace mccl::judge
