// One channel per message, such that every stream end fits into one lane: a lane has one receive
// stream, one send stream and one channel, and fused nodes and the author's lane keys say which two
// stream ends share a lane.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "lang/fuse.h"
#include "lang/message_groups.h"
#include "lang/step_graph.h"

namespace mccl::lang {

// A stream end and the lane it needs.
struct StreamEnd {
  int partner = -1;  // the peer of the lane's other direction, where something fixes it
  int key = -1;      // the author's lane key
};

// The name of a stream end; small enough to be one number.
inline uint64_t end_name(int rank, bool is_send, int peer, int channel) {
  return static_cast<uint64_t>(rank) << 42 | static_cast<uint64_t>(peer) << 20 |
         static_cast<uint64_t>(channel) << 1 | static_cast<uint64_t>(is_send);
}

struct ChannelPlan {
  Indexed<int> channel;  // by message
  std::unordered_map<uint64_t, StreamEnd> ends;
  // Messages whose receive must stay apart from the send it is fused with; then nothing else is
  // valid.
  std::vector<int> too_fused;
  std::vector<std::string> faults;  // of the author's keys and channels
};

ChannelPlan assign_channels(const Recording& recording, const StepGraph& graph,
                            const MessageGroups& groups, const FusionLimits& limits);

}  // namespace mccl::lang
