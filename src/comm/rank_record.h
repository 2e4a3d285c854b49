// What a rank tells about itself at the rendezvous, and how records of ranks differ.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mccl/status.h"
#include "transport/transport.h"

namespace mccl {

struct RankRecord {
  PeerAddress peer;
  std::string host_name;
  std::string host_id;    // equal on ranks that share a kernel and its network
  std::string kernel_id;  // equal on ranks that share a kernel, and so its cores
  int64_t pid = 0;
  std::string switch_name;  // MCCL_SWITCH
  std::string settings;     // job_settings_text()
  // Which MCCL_SECRET it has: equal where that is, and new for every meeting; empty: none.
  std::string secret_check;
  std::string version;
  // What should be equal and need not be: ("torch", "2.13.0").
  std::vector<std::pair<std::string, std::string>> manifest;
  // Of the programs that it has loaded (program_library.h): digest, files, and why the rank cannot
  // run them; empty when it can.
  std::string programs;
  std::vector<std::string> program_files;
  std::string program_fault;
  // Of the communicator, as this rank was told.
  int rank_count = 0;
  std::string title;
  bool operator==(const RankRecord&) const;
};

nlohmann::json to_json(const RankRecord& record);
// Throws nlohmann::json::exception for what is no record.
RankRecord record_from(const nlohmann::json& json);

// "rank 3 (host h7, pid 4711)"
std::string name_of(int rank, const RankRecord& record);

// The ranks on the cores of `rank`, itself among them: also those in other containers or network
// namespaces, which count as hosts of their own.
int count_core_sharers(const std::vector<RankRecord>& ranks, int rank);

// Mismatch with every difference that makes the ranks unable to work together, each once.
Status check_records(const std::vector<RankRecord>& ranks);
// The differences of the manifests, one line each: "torch differs: 2.13.0 on rank 0, 2.12.1 on
// ranks 1, 2".
std::vector<std::string> describe_differences(const std::vector<RankRecord>& ranks);

}  // namespace mccl
