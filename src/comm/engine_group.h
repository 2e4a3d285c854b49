// A communicator as the engine sees it: its operations, and which processes belong to it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/flight_recorder.h"
#include "runtime/operation_queue.h"
#include "runtime/point_to_point.h"
#include "transport/transport.h"

namespace mccl {

struct EngineMember {
  int rank = -1;
  std::string name;  // "rank 3 (host h7, pid 4711)"
  PeerAddress peer;
};

struct EngineGroup {
  EngineGroup(uint64_t communicator, RunQueue& run_queue, const Device& device, BufferPool& pool,
              const Clock& clock, OperationQueue::Words words)
      : recorder(clock),
        queue(run_queue, device, pool, recorder, std::move(words)),
        messages(communicator, run_queue, pool, recorder,
                 [this](const Status& status) { queue.fail(status); }) {}

  size_t in_flight_count() const { return queue.in_flight_count() + messages.in_flight_count(); }
  bool needs_link(const Link& link) const {
    return queue.needs_link(link) || messages.needs_link(link);
  }

  FlightRecorder recorder;                   // what both have done
  OperationQueue queue;                      // collectives; its failure is the group's
  PointToPoint messages;                     // sends and receives
  std::string title;                         // "group 1 of ranks 0, 3": for messages
  std::map<uint64_t, EngineMember> members;  // by process
  std::set<uint64_t> left;                   // members that destroyed the communicator
};

// By communicator.
using EngineGroups = std::unordered_map<uint64_t, std::unique_ptr<EngineGroup>>;

}  // namespace mccl
