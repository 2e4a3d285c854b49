// What `mccl perf` is asked to do: the flags of nccl-tests, as typed and as understood. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mccl/status.h"
#include "mccl/types.h"

namespace mccl {

// How the times that the ranks measured become one: -a.
enum class RankAverage : uint8_t { RankZero, Mean, Min, Max };

// As typed. Defaults are those of nccl-tests.
struct PerfWords {
  std::string collective = {};  // "all_reduce", "all_reduce_perf", "alltoall_perf"
  int rank_count = 0;           // --ranks; 0: not given
  int thread_count = 1;         // -t
  int device_count = 1;         // -g
  std::string min_bytes = "32M";
  std::string max_bytes = "32M";
  std::string step_bytes = "1M";
  int step_factor = 0;  // -f; 0: by step_bytes
  int iteration_count = 20;
  int aggregate_count = 1;
  int warmup_count = 1;
  int cycle_count = 1;
  int check_count = 1;
  std::string op = "sum";
  std::string dtype = "float";
  int root = 0;
  int average = 1;
  double timeout_s = 0;                      // 0: MCCL_TIMEOUT
  std::vector<std::string> algos = {};       // --algo, each a list as in MCCL_ALGO
  std::vector<std::string> idle_flags = {};  // of nccl-tests, given, and without a meaning here
};

// As understood.
struct PerfOptions {
  Collective collective = Collective::AllReduce;
  int rank_count = 0;  // local ranks wanted; 0: nothing was said
  std::vector<int64_t> sizes;
  int64_t step_bytes = 0;  // between the sizes; 0: step_factor
  int step_factor = 0;
  int iteration_count = 0;
  int aggregate_count = 0;
  int warmup_count = 0;
  int cycle_count = 0;
  bool is_checked = false;
  bool is_in_place_only = false;  // no out-of-place column, unless there is no other
  std::vector<DataType> dtypes;
  std::vector<ReduceOp> ops;  // one, which is not looked at, of a collective that reduces nothing
  int root = 0;
  RankAverage average = RankAverage::Mean;
  double timeout_s = 0;
  std::vector<std::string> algos;    // contenders; one that is empty: the planner's choice
  std::vector<std::string> notices;  // what was accepted and has no effect, one sentence each
};

// InvalidArgument names the flag and what is allowed.
Result<PerfOptions> read_perf_options(const PerfWords& words);

// nccl-tests' spelling of a size: "64K", "1.5m", "32M": binary units. InvalidArgument otherwise.
Result<int64_t> parse_perf_bytes(std::string_view flag, std::string_view text);

// nccl-tests' names ("float", "half", "prod") where they have one, else ours.
std::string_view perf_dtype_name(DataType dtype);
std::string_view perf_op_name(ReduceOp op);
std::optional<Collective> find_perf_collective(std::string_view name);
// "all_reduce_perf", "alltoall_perf".
std::string perf_program_name(Collective collective);

// Whether one rank differs from the others: -r.
bool is_rooted(Collective collective);

}  // namespace mccl
