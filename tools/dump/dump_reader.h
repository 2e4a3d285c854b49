// Dumps (docs/dumps.md) as values: what `mccl dump` needs of them. Files come from anywhere, so
// nothing in them is trusted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mccl/status.h"

namespace mccl {

struct DumpedCall {
  uint64_t sequence = 0;
  std::string call;
  std::string state;
  std::string failed_in;  // the state before "failed"
  std::string waits;
  std::vector<int> waits_for;  // ranks
  bool is_open() const { return state != "complete"; }
};

struct DumpedMessage {
  uint64_t number = 0;
  bool is_send = false;
  int peer = -1;  // -1: a receive from anybody
  int64_t tag = 0;
  std::string state;
  std::string failed_in;
  // Whether the peer had done nothing for it.
  bool waits_for_peer() const {
    return (state == "failed" ? failed_in : state) == "waits for peer";
  }
};

struct DumpedMember {
  std::string host;
  int64_t pid = 0;
  std::string process;
};

struct DumpedCommunicator {
  std::string id;
  std::string name;
  int rank = 0;
  std::vector<DumpedMember> members;  // by rank
  uint64_t posted_count = 0;
  uint64_t completed_count = 0;
  std::string failure;  // in words; empty: none
  std::string held_up_by;
  std::vector<DumpedCall> calls;  // oldest first
  std::vector<DumpedMessage> messages;
};

struct DumpedProcess {
  std::string process;  // the number that members name it by
  std::string host;
  int64_t pid = 0;
  std::string time;
  std::vector<DumpedCommunicator> communicators;
};

// InvalidArgument names the file, `name`, and what is wrong with it.
Result<DumpedProcess> parse_dump(const std::string& text, const std::string& name);

}  // namespace mccl
