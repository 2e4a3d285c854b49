// Runs the passes in order:
//   check           faults of the author, all of them
//   first_instance  maps the chunks of the first of several instances
//   expand          one node per local statement, a sending and a receiving node per message
//   fuse            joins neighbouring nodes of one rank into one step
//   assign_channels one channel per message, so that every stream end fits one lane
//   ChunkDag        what must wait for what
//   schedule        an order of all nodes that is itself an execution with two messages per stream
//   plan_lanes      stream ends and local nodes to lanes, each in the order of the schedule
//   emit            steps with the dependences that lane order does not imply already
//   hoist_waits     where the author asked for it
//   add_instances   the other instances, at constant offsets from the first
#pragma once

#include "lang/recording.h"
#include "mccl/status.h"

namespace mccl::lang {

Result<Program> lower(Recording& recording, StepLines& lines);

}  // namespace mccl::lang
