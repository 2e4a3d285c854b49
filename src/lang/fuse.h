// Joins neighbouring nodes of a rank into one step:
//   recv + local reduce of what came   recv_reduce_copy, when nobody else reads what came
//   recv + send of the same span       recv_copy_send
//   recv_reduce_copy + send of it      recv_reduce_copy_send; or recv_reduce_send, when nobody else
//                                      reads the stored value and it is overwritten or scratch
//
// A local reduce never joins a fold, nor two folds each other: that would change the rounding (L5).
#pragma once

#include "lang/message_groups.h"
#include "lang/step_graph.h"

namespace mccl::lang {

// What later passes found not to work; each entry is about the receiving node of a message.
struct FusionLimits {
  Indexed<uint8_t> is_reduce_apart;   // by message: its receive stays apart from a local reduce
  Indexed<uint8_t> is_forward_apart;  // by message: its receive stays apart from a send
  Indexed<int> channel_min;           // by message: where the search for a channel starts
};

// Joins what may be joined; the messages of a fused chain are joined in `groups`.
StepGraph fuse(const StepGraph& graph, const Program& shape, const FusionLimits& limits,
               MessageGroups& groups);

}  // namespace mccl::lang
