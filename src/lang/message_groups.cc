#include "lang/message_groups.h"

namespace mccl::lang {

MessageGroups::MessageGroups(const Recording& recording, const StepGraph& graph,
                             std::vector<std::string>& faults) {
  for (int message = 0; message < graph.messages.count(); ++message) {
    parent_.push_back(message);
    channel_.push_back(graph.messages[message].channel);
  }
  for (int message = 0; message < graph.messages.count(); ++message) {
    add_end(recording, graph, message, true, faults);
    add_end(recording, graph, message, false, faults);
  }
}

void MessageGroups::add_end(const Recording& recording, const StepGraph& graph, int message,
                            bool is_send, std::vector<std::string>& faults) {
  const Message& data = graph.messages[message];
  const int key = is_send ? data.send_key : data.recv_key;
  if (key < 0) return;
  const int rank = is_send ? data.sender : data.receiver;
  const int peer = is_send ? data.receiver : data.sender;
  const auto fault = [&](const std::string& text) {
    faults.push_back(fault_text(
        recording.statements[data.statement].line,
        "lane " + std::to_string(key) + " of rank " + std::to_string(rank) + " would " + text));
  };
  KeyedLane& lane = keyed_lanes_[{rank, key}];
  int& lane_peer = is_send ? lane.send_peer : lane.recv_peer;
  if (lane_peer < 0) lane_peer = peer;
  if (lane_peer != peer)
    fault((is_send ? "send to ranks " : "receive from ranks ") + std::to_string(lane_peer) +
          " and " + std::to_string(peer));
  const auto [place, is_first] = first_message_of_key_.insert({{rank, key}, message});
  if (!is_first && !join(place->second, message))
    fault("use channels " + std::to_string(channel(place->second)) + " and " +
          std::to_string(channel(message)));
}

bool MessageGroups::join(int first, int second) {
  const int first_root = group(first);
  const int second_root = group(second);
  if (first_root == second_root) return true;
  const int first_channel = channel_[first_root];
  const int second_channel = channel_[second_root];
  if (first_channel >= 0 && second_channel >= 0 && first_channel != second_channel) return false;
  const int root = std::min(first_root, second_root);
  parent_[std::max(first_root, second_root)] = root;
  channel_[root] = std::max(first_channel, second_channel);
  return true;
}

int MessageGroups::group(int message) const {
  while (parent_[message] != message) {
    parent_[message] = parent_[parent_[message]];
    message = parent_[message];
  }
  return message;
}

const KeyedLane* MessageGroups::keyed_lane(int rank, int key) const {
  const auto place = keyed_lanes_.find({rank, key});
  return place == keyed_lanes_.end() ? nullptr : &place->second;
}

}  // namespace mccl::lang
