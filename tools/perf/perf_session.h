// All ranks of a measurement: those that a launcher started, of which this process is one, or
// processes that this one starts.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/config.h"
#include "mccl/status.h"
#include "perf/launcher.h"
#include "perf/perf_options.h"
#include "perf/perf_rank.h"

namespace mccl {

// Where this process sits.
struct PerfSeat {
  std::optional<LaunchPlace> launch = {};  // none: the ranks are started here
  int rank_count = 1;

  // One process of all prints what was measured.
  bool is_printing() const { return !launch || launch->rank == 0; }
};
// 2 ranks, where neither a launcher nor the options say how many. Adds a notice to `options` where
// it says otherwise than the launcher. Errors as of find_launch_place().
Result<PerfSeat> find_perf_seat(PerfOptions& options, EnvironmentView launch_environment);

using ChooseSizes = std::function<std::vector<int64_t>(const std::vector<PerfLine>& lines)>;

// `listener` is of this process alone; `choose_sizes` (may be empty) is asked on every rank, as
// PerfListener says. Blocks until all is measured. Without a launcher it forks, so the process must
// not have threads yet. Errors as of run_perf_rank(); another rank's own error comes before what
// this one saw of it.
Result<PerfOutcome> run_perf_session(const PerfOptions& options, const Environment& settings,
                                     const PerfSeat& seat, const PerfListener& listener,
                                     const ChooseSizes& choose_sizes);

}  // namespace mccl
