// Which messages must share a channel: those of one lane key on a rank, and those of a fused chain,
// because a lane has one channel. Also holds the peers that a keyed lane has.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lang/step_graph.h"

namespace mccl::lang {

struct KeyedLane {
  int send_peer = -1;
  int recv_peer = -1;
};

class MessageGroups {
 public:
  // Faults: a keyed lane that would need two peers of one direction or two channels.
  MessageGroups(const Recording& recording, const StepGraph& graph,
                std::vector<std::string>& faults);

  // Puts two messages into one group unless the author gave their groups different channels.
  bool join(int first, int second);

  int group(int message) const;
  // The author's channel of the message's group, or -1.
  int channel(int message) const { return channel_[group(message)]; }
  // Null for key -1.
  const KeyedLane* keyed_lane(int rank, int key) const;

 private:
  void add_end(const Recording& recording, const StepGraph& graph, int message, bool is_send,
               std::vector<std::string>& faults);

  mutable Indexed<int> parent_;
  Indexed<int> channel_;                                     // of a group, at its root
  std::map<std::pair<int, int>, KeyedLane> keyed_lanes_;     // by rank, key
  std::map<std::pair<int, int>, int> first_message_of_key_;  // by rank, key
};

}  // namespace mccl::lang
