// The rendezvous (law L10): every rank publishes a record, rank 0 gathers them, decides, and
// publishes one blob. Two store requests per rank, n more on rank 0, none per collective.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "mccl/store.h"
#include "planner/plan_table.h"
#include "transport/transport.h"

namespace mccl {

// What a rank tells about itself.
struct RankRecord {
  PeerAddress peer;
  std::string host_name;
  std::string host_id;    // equal on ranks that share a kernel and its network
  std::string kernel_id;  // equal on ranks that share a kernel, and so its cores
  int64_t pid = 0;
  std::string switch_name;  // MCCL_SWITCH
  std::string settings;     // job_settings_text()
  std::string version;
  bool operator==(const RankRecord&) const;
};

// The ranks on the cores of `rank`, itself among them: also those in other containers or network
// namespaces, which count as hosts of their own.
int count_core_sharers(const std::vector<RankRecord>& ranks, int rank);

// What all ranks hold after the rendezvous; the same on each.
struct Agreement {
  uint64_t communicator = 0;  // a random number, chosen by rank 0
  std::vector<RankRecord> ranks;
  PlanTable table;
};

struct BootstrapOptions {
  std::string name;  // key prefix
  int rank = 0;
  int rank_count = 1;
  int64_t timeout_ns = 0;
  std::function<bool()> interrupted;
};

class Bootstrap {
 public:
  // `store` and `clock` outlive it.
  Bootstrap(Store& store, const Clock& clock, BootstrapOptions options);

  // Publishes this rank's record.
  Status publish(const RankRecord& record);

  // Rank 0: waits for all records, lets `decide` make the plan table and publishes the blob (or the
  // reason why there is none, which every rank then reports). Others: wait for the blob. Timeout
  // names the ranks whose record is missing. Blocks.
  using Decide = std::function<Result<PlanTable>(const std::vector<RankRecord>&)>;
  Result<Agreement> finish(const RankRecord& own, uint64_t communicator, const Decide& decide);

 private:
  std::string key_of_rank(int rank) const;
  std::string key_of_blob() const;
  // Waits in slices, so that an interrupt is noticed.
  Result<std::string> wait_for(const std::string& key);
  Result<std::vector<RankRecord>> gather(const RankRecord& own);
  Status check_settings(const std::vector<RankRecord>& ranks) const;
  Status missing_ranks();

  Store& store_;
  const Clock& clock_;
  BootstrapOptions options_;
  TimeNs deadline_;
};

}  // namespace mccl
