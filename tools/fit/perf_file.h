// Reads measured times of collectives: what nccl-tests print, their JSON, the JSON
// of the other verbs, or a table with a line of column names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mccl/status.h"
#include "mccl/types.h"
#include "verb/verb.h"

namespace mccl {

struct PerfRow {
  Collective collective = Collective::AllReduce;
  int rank_count = 0;
  int64_t bytes = 0;                       // S: of the larger buffer, as nccl-tests counts
  double time_us = 0;                      // of one operation
  FigureKind kind = FigureKind::Measured;  // what `mccl simulate` wrote is simulated
  bool operator==(const PerfRow&) const = default;
};

// `text` in any of these forms; the first character decides:
//   nccl-tests   rows of 12 or more fields, out-of-place time; "#  Rank" lines count the ranks
//   a table      column names (ranks, size, time, busbw; time in us, busbw in GB/s), then rows,
//                separated by blanks or commas. Without time it follows from busbw.
//   JSON         of nccl-tests, or {"collective", "ranks", "rows": [{"bytes", "time_us"}, ...]}
//                where a row may name its own "ranks"
// Rows of size 0 and rows without a time are left out. `rank_count` > 0 is that of rows which do
// not say; 0: such rows are faults. InvalidArgument lists all faults, with `file_name` and line.
Result<std::vector<PerfRow>> parse_perf_file(std::string_view text, const std::string& file_name,
                                             int rank_count);

}  // namespace mccl
