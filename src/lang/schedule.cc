// A list scheduler over a simulated machine. A node is ready when its dependences are done and its
// message was given. Ready nodes go by depth; one whose message is not the next of its stream waits
// for that, one whose outgoing stream is full waits for a credit, and the rest goes on.
//
// A plain send is ranked by the depth of its receive: of two messages on a stream, the one that is
// needed first should go first.
#include "lang/schedule.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace mccl::lang {
namespace {

using Ranked = std::pair<int, int>;  // depth, node
using RankedQueue = std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>>;

struct Stream {
  Indexed<int> given;  // messages, in order
  int taken_count = 0;
  RankedQueue credit_waiters;
  int outstanding() const { return given.count() - taken_count; }
};

class Scheduler {
 public:
  Scheduler(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels)
      : graph_(graph), dag_(dag) {
    name_streams(channels);
    find_depths();
    waits_.assign(graph.nodes.size(), 0);
    is_at_order_.assign(graph.nodes.size(), 0);
  }

  Schedule run() {
    for (int node = 0; node < graph_.nodes.count(); ++node) {
      waits_[node] = static_cast<int>(dag_.predecessors(node).size()) +
                     (graph_.nodes[node].recv_message >= 0 ? 1 : 0);
      if (waits_[node] == 0) ready_.emplace(depth_[node], node);
    }
    while (!ready_.empty()) {
      const int node = ready_.top().second;
      ready_.pop();
      if (may_run(node)) execute(node);
    }
    if (schedule_.order.count() != graph_.nodes.count()) report_blocked();
    return std::move(schedule_);
  }

 private:
  void name_streams(const ChannelPlan& channels) {
    std::unordered_map<uint64_t, int> stream_of_end;
    for (int message = 0; message < graph_.messages.count(); ++message) {
      const Message& data = graph_.messages[message];
      const uint64_t name = end_name(data.sender, true, data.receiver, channels.channel[message]);
      const auto [place, is_new] =
          stream_of_end.insert({name, static_cast<int>(stream_of_end.size())});
      stream_.push_back(place->second);
    }
    streams_.resize(stream_of_end.size());
  }

  void find_depths() {
    depth_.assign(graph_.nodes.size(), 0);
    for (int index = 0; index < graph_.nodes.count(); ++index) {
      int depth = 0;
      for (const int before : dag_.predecessors(index)) depth = std::max(depth, depth_[before] + 1);
      const int message = graph_.nodes[index].recv_message;
      if (message >= 0) depth = std::max(depth, depth_[graph_.messages[message].send_node] + 1);
      depth_[index] = depth;
    }
    for (int index = 0; index < graph_.nodes.count(); ++index)
      if (graph_.nodes[index].opcode == Opcode::Send) {
        const Message& message = graph_.messages[graph_.nodes[index].send_message];
        depth_[index] = std::max(depth_[index], depth_[message.recv_node] - 1);
      }
  }

  // Sets the node aside when it must wait for its stream.
  bool may_run(int index) {
    const Node& node = graph_.nodes[index];
    if (node.recv_message >= 0) {
      const Stream& stream = streams_[stream_[node.recv_message]];
      if (stream.given[stream.taken_count] != node.recv_message) {
        is_at_order_[index] = 1;
        return false;
      }
    }
    if (node.send_message >= 0) {
      Stream& stream = streams_[stream_[node.send_message]];
      if (stream.outstanding() >= kMessagesPerStream) {
        stream.credit_waiters.emplace(depth_[index], index);
        return false;
      }
    }
    return true;
  }

  void execute(int index) {
    const Node& node = graph_.nodes[index];
    schedule_.order.push_back(index);
    if (node.recv_message >= 0) take(node.recv_message);
    if (node.send_message >= 0) {
      streams_[stream_[node.send_message]].given.push_back(node.send_message);
      release(graph_.messages[node.send_message].recv_node);
    }
    for (const int after : dag_.successors(index)) release(after);
  }

  void take(int message) {
    Stream& stream = streams_[stream_[message]];
    ++stream.taken_count;
    if (stream.taken_count < stream.given.count()) {
      const int next = graph_.messages[stream.given[stream.taken_count]].recv_node;
      if (is_at_order_[next]) {
        is_at_order_[next] = 0;
        ready_.emplace(depth_[next], next);
      }
    }
    if (!stream.credit_waiters.empty()) {
      ready_.push(stream.credit_waiters.top());
      stream.credit_waiters.pop();
    }
  }

  void release(int node) {
    if (--waits_[node] == 0) ready_.emplace(depth_[node], node);
  }

  void report_blocked() {
    for (int node = 0; node < graph_.nodes.count(); ++node)
      if (is_at_order_[node]) schedule_.blocked_by_order.push_back(node);
    for (Stream& stream : streams_) {
      for (; !stream.credit_waiters.empty(); stream.credit_waiters.pop())
        schedule_.blocked_by_credit.push_back(stream.credit_waiters.top().second);
      if (stream.outstanding() > 0)
        schedule_.in_front.push_back(graph_.messages[stream.given[stream.taken_count]].recv_node);
    }
  }

  const StepGraph& graph_;
  const ChunkDag& dag_;
  Indexed<int> stream_;  // by message
  Indexed<Stream> streams_;
  Indexed<int> depth_;            // by node
  Indexed<int> waits_;            // by node: dependences and message not there yet
  Indexed<uint8_t> is_at_order_;  // by node: ready, but its message is not the next one
  RankedQueue ready_;
  Schedule schedule_;
};

}  // namespace

Schedule schedule(const StepGraph& graph, const ChunkDag& dag, const ChannelPlan& channels) {
  return Scheduler(graph, dag, channels).run();
}

}  // namespace mccl::lang
