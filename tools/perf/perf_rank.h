// One rank of a measurement: contenders take turns, iteration by iteration, on live communicators.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/config.h"
#include "mccl/status.h"
#include "mccl/store.h"
#include "perf/perf_options.h"
#include "perf/perf_table.h"

namespace mccl {

struct PerfPlace {
  int rank = 0;
  int rank_count = 1;
  std::string master_address;  // where the rendezvous is: the listener takes the address that leads
  Environment settings;        // of every endpoint; a contender's --algo replaces MCCL_ALGO
  std::function<bool()> interrupted = {};  // ends the rendezvous early; may be empty
};

// Called on the thread of run_perf_rank(), on every rank; may be empty.
struct PerfListener {
  std::function<void(const std::vector<RankLine>& ranks)> begin = {};
  std::function<void(const PerfLine& line)> add_line = {};
  // After all of -N cycles: sizes to measure once more, none when it is enough. No larger than the
  // largest of the options. What it is given is the same on every rank, and so must be the answer.
  std::function<std::vector<int64_t>(const std::vector<PerfLine>& lines)> choose_sizes = {};
};

struct PerfOutcome {
  std::vector<RankLine> ranks;
  std::vector<PerfLine> lines;  // with -N 0 nothing is kept
};

// Blocks until all is measured; the result is the same on every rank. Each iteration: new inputs, a
// barrier, the calls (timed until the last one is done), the check of every element.
// InvalidArgument also when -r is no rank. Errors of communicators are passed on.
Result<PerfOutcome> run_perf_rank(const PerfOptions& options, const PerfPlace& place, Store& store,
                                  const PerfListener& listener);

}  // namespace mccl
