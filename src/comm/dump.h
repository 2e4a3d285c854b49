// What a process's communicators last did, as a value and as text: one JSON document per process,
// which `mccl dump` reads (docs/dumps.md). The value is copied with the engine held; the text is
// made and written without.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/config.h"
#include "comm/bootstrap.h"
#include "mccl/communicator.h"
#include "mccl/status.h"
#include "runtime/flight_recorder.h"
#include "runtime/operation_queue.h"

namespace mccl {

struct CommunicatorDump {
  uint64_t id = 0;
  std::string title;
  int rank = 0;
  std::vector<RankRecord> ranks;
  std::set<uint64_t> left;  // processes that destroyed it
  uint64_t posted_count = 0;
  uint64_t completed_count = 0;
  Status failure;
  std::string held_up_by;              // in words; empty: nothing is known
  std::vector<ProgramCount> programs;  // by OperationRecord::plan
  std::vector<OperationRecord> operations;
  std::vector<OperationWait> waits;  // of operations in flight, or that were when it failed
  std::map<uint64_t, std::vector<int>> peers;  // by sequence, of those in `waits`
  std::vector<MessageRecord> messages;
};

struct LinkDump {
  uint64_t peer_process = 0;
  std::string peer_name;  // may be empty
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  bool is_connected = false;
  Status failure;
};

struct ProcessDump {
  std::string cause;  // "failure", "signal", "call"
  RankRecord process;
  Config config;
  TimeNs now = 0;        // of the engine's clock, like all times of records
  TimeNs wall_time = 0;  // at the same moment
  std::vector<CommunicatorDump> communicators;
  std::vector<LinkDump> links;
};

// Ends with a line end. Operations, members and the like have a line each.
std::string write_dump(const ProcessDump& dump);

}  // namespace mccl
