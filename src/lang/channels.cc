// Groups of messages (message_groups.h) are placed one after the other on the lowest channel where
// all their stream ends agree with what earlier groups fixed; groups with a channel of the author
// come first. On a channel that nobody uses yet only a group itself can be in the way: a chain that
// comes through a rank twice and leaves it differently. Then the chain is cut there.
#include "lang/channels.h"

#include <algorithm>

#include "lang/check.h"

namespace mccl::lang {
namespace {

class Assigner {
 public:
  Assigner(const Recording& recording, const StepGraph& graph, const MessageGroups& groups,
           const FusionLimits& limits)
      : recording_(recording), graph_(graph), groups_(groups), limits_(limits) {}

  ChannelPlan run() {
    const int message_count = graph_.messages.count();
    plan_.channel.assign(static_cast<size_t>(message_count), -1);
    collect_members();
    for (const bool is_given : {true, false})
      for (int root = 0; root < message_count; ++root)
        if (groups_.group(root) == root && (groups_.channel(root) >= 0) == is_given)
          place_group(root);
    return std::move(plan_);
  }

 private:
  // Members of a group as a linked list in message order, starting at the root.
  void collect_members() {
    next_.assign(graph_.messages.size(), -1);
    Indexed<int> last(graph_.messages.size(), -1);
    for (int message = 0; message < graph_.messages.count(); ++message) {
      const int root = groups_.group(message);
      if (last[root] >= 0) next_[last[root]] = message;
      last[root] = message;
    }
  }

  void place_group(int root) {
    const int given = groups_.channel(root);
    int channel = given;
    if (given < 0) {
      channel = 0;
      for (int member = root; member >= 0; member = next_[member])
        channel = std::max(channel, limits_.channel_min[member]);
      while (channel < channel_end_ && !try_place(root, channel)) ++channel;
      if (channel < channel_end_) return;
    }
    for (int member = root; member >= 0; member = next_[member]) {
      plan_.channel[member] = channel;
      if (!claim_ends(member, channel)) cut(member, channel);
    }
    channel_end_ = std::max(channel_end_, channel + 1);
  }

  bool try_place(int root, int channel) {
    undo_.clear();
    for (int member = root; member >= 0; member = next_[member]) {
      plan_.channel[member] = channel;
      if (claim_ends(member, channel)) continue;
      for (auto entry = undo_.rbegin(); entry != undo_.rend(); ++entry)
        plan_.ends[entry->first] = entry->second;
      return false;
    }
    return true;
  }

  bool claim_ends(int message, int channel) {
    const Message& data = graph_.messages[message];
    const Node& send = graph_.nodes[data.send_node];
    const Node& receive = graph_.nodes[data.recv_node];
    int partner = -1;
    int key = data.send_key;
    if (send.is_forwarding()) {
      const Message& taken = graph_.messages[send.recv_message];
      partner = taken.sender;
      if (key < 0) key = taken.recv_key;
    }
    if (!claim(end_name(data.sender, true, data.receiver, channel), data.sender, key, partner,
               true))
      return false;
    partner = -1;
    key = data.recv_key;
    if (receive.is_forwarding()) {
      const Message& given = graph_.messages[receive.send_message];
      partner = given.receiver;
      if (key < 0) key = given.send_key;
    }
    return claim(end_name(data.receiver, false, data.sender, channel), data.receiver, key, partner,
                 false);
  }

  bool claim(uint64_t name, int rank, int key, int partner, bool is_send) {
    if (const KeyedLane* lane = key < 0 ? nullptr : groups_.keyed_lane(rank, key)) {
      const int keyed = is_send ? lane->recv_peer : lane->send_peer;
      if (keyed >= 0 && partner >= 0 && keyed != partner) return false;
      if (keyed >= 0) partner = keyed;
    }
    StreamEnd& end = plan_.ends[name];
    if ((key >= 0 && end.key >= 0 && end.key != key) ||
        (partner >= 0 && end.partner >= 0 && end.partner != partner))
      return false;
    undo_.emplace_back(name, end);
    if (key >= 0) end.key = key;
    if (partner >= 0) end.partner = partner;
    return true;
  }

  // The message does not fit: the fused nodes at its ends must fall apart. Where there is none, the
  // author asked for the impossible.
  void cut(int message, int channel) {
    const Message& data = graph_.messages[message];
    const Node& send = graph_.nodes[data.send_node];
    const Node& receive = graph_.nodes[data.recv_node];
    if (send.is_forwarding()) plan_.too_fused.push_back(send.recv_message);
    if (receive.is_forwarding()) plan_.too_fused.push_back(message);
    if (send.is_forwarding() || receive.is_forwarding()) return;
    plan_.faults.push_back(fault_text(recording_.statements[data.statement].line,
                                      "the message from rank " + std::to_string(data.sender) +
                                          " to rank " + std::to_string(data.receiver) +
                                          " shares channel " + std::to_string(channel) +
                                          " with one that the lane keys put into another lane"));
  }

  const Recording& recording_;
  const StepGraph& graph_;
  const MessageGroups& groups_;
  const FusionLimits& limits_;
  ChannelPlan plan_;
  Indexed<int> next_;
  int channel_end_ = 0;  // one more than the highest channel in use
  std::vector<std::pair<uint64_t, StreamEnd>> undo_;
};

}  // namespace

ChannelPlan assign_channels(const Recording& recording, const StepGraph& graph,
                            const MessageGroups& groups, const FusionLimits& limits) {
  return Assigner(recording, graph, groups, limits).run();
}

}  // namespace mccl::lang
