// Operations of a group of simulated ranks, by the real engine: when each rank is done, what the
// network carried, what memory it took.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "ir/proven_program.h"
#include "mccl/status.h"
#include "sim/world.h"
#include "simulate/step_trace.h"
#include "verb/link_options.h"

namespace mccl {

// Memory that a simulation may take for buffers.
constexpr int64_t kSimulationBytesMax = int64_t{4} << 30;
constexpr int kSimulationRanksMax = 4096;
constexpr int kSimulationOperationsMax = 10'000;

struct SimulationRequest {
  Collective collective = Collective::AllReduce;
  int rank_count = 24;
  int64_t bytes = 0;  // S of one operation; rounded down to what the blocks can share
  int operation_count = 1;
  LinkChoice link;
  sim::WorldOptions world;                       // latency and bandwidth are those of `link`
  std::string algorithm;                         // of the catalogue; empty: the planner's choice
  std::shared_ptr<const ProvenProgram> program;  // not of the catalogue; null: `algorithm`
  std::vector<TimeNs> lateness_ns;               // of each rank's calls; empty: none
  bool is_cold = false;                          // the first operation makes the connections
  StepTrace* trace = nullptr;
  std::function<void(int percent)> on_progress;  // may be empty
};

struct SimulationReport {
  std::string program;
  std::string reason;       // why this program
  int64_t bytes = 0;        // S as it was run
  double modelled_ns = 0;   // the cost model's time of one operation; 0: none
  int64_t slice_bytes = 0;  // of the plan
  // Per rank, from the first call that would be on time; of the rank's last operation.
  std::vector<TimeNs> completion_ns;
  std::vector<uint64_t> bytes_sent;
  std::vector<uint64_t> buffered_bytes_max;

  TimeNs duration_ns() const;  // until the last rank is done
};

// Every rank calls `operation_count` times at once. Buffers hold zeros and are shared by the ranks,
// whose values nobody looks at: figures do not depend on them, and 200 ranks need the memory of
// one. Errors: of arguments (InvalidArgument), of plans (Unsupported), of proofs, of operations.
Result<SimulationReport> simulate(const SimulationRequest& request);

}  // namespace mccl
