// Who waits for whom, from the dumps of several ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump/dump_reader.h"

namespace mccl {

// A rank of a communicator. Without a dump only host and pid are known.
struct RankRow {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  bool has_dump = false;
  uint64_t posted_count = 0;
  uint64_t completed_count = 0;
  std::string call;       // the oldest one that is not complete, else the last one: "41 barrier()"
  std::string state;      // "running", "failed, was running"; empty: it has made no call
  std::string waits_for;  // "rank 2"; empty: nobody
  std::string failure;
  std::string held_up_by;
};

// A call that a rank has not made and others wait in. Without a dump of it: that others wait for.
struct MissingCall {
  int rank = 0;
  bool has_dump = false;
  uint64_t sequence = 0;
  std::string call;
  std::vector<int> waiters;
};
// "rank 2 has not made operation 41, barrier(), which ranks 0, 1, 3 wait for".
std::string to_text(const MissingCall& missing);

// A message that its peer has done nothing for.
struct MissingMessage {
  int rank = 0;
  int peer = -1;
  bool is_send = false;
  int64_t tag = 0;
};
std::string to_text(const MissingMessage& missing);

struct CommunicatorReport {
  std::string id;
  std::string name;
  std::vector<RankRow> rows;  // by rank
  std::vector<MissingCall> missing;
  std::vector<MissingMessage> messages;
};

struct WaitReport {
  std::vector<CommunicatorReport> communicators;  // in the order in which the dumps show them
  // Processes that wait for each other, the last one for the first: a sentence each. Empty: none.
  std::vector<std::string> circle;

  bool is_anybody_behind() const;
};

// Of two dumps of one process the later one counts.
WaitReport make_wait_report(std::vector<DumpedProcess> processes);

}  // namespace mccl
