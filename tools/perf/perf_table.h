// What `mccl perf` prints: nccl-tests' lines and columns, which other programs parse, then what
// nccl-tests does not know; and the JSON. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/perf_options.h"
#include "perf/perf_statistics.h"

namespace mccl {

// Where a rank runs.
struct RankLine {
  int rank = 0;
  int64_t pid = 0;
  std::string host;
  std::string processor;  // "CPU", or the name of its model
};

// One size, type, operation, root and contender.
struct PerfLine {
  int64_t bytes = 0;
  int64_t count = 0;  // of elements, as nccl-tests counts them for the collective
  DataType dtype = DataType::Float32;
  std::optional<ReduceOp> op = {};  // none: nothing is reduced
  int root = -1;                    // -1: there is none
  std::string algo = {};            // the contender; empty: the planner's choice
  std::optional<PerfFigures> out_of_place = {};
  std::optional<PerfFigures> in_place = {};  // none: the collective cannot
  int64_t calls = 0;                         // of each of the two
};

struct PerfSummary {
  int64_t wrong = 0;
  double average_busbw = 0;                // plain mean over all lines and both column groups
  std::optional<double> least_busbw = {};  // NCCL_TESTS_MIN_BW
  bool is_checked = true;
  std::vector<std::string> unserved = {};  // contenders that served no call

  bool is_fast_enough() const { return !least_busbw || average_busbw >= 0.9 * *least_busbw; }
};
PerfSummary summarize(const std::vector<PerfLine>& lines, const PerfOptions& options,
                      int rank_count);

// Everything above the first line, from "# mccl perf" on.
std::string write_perf_head(const PerfOptions& options, const std::vector<RankLine>& ranks);
// 13 fields, and with several contenders the name of this one.
std::string write_perf_line(const PerfLine& line, const PerfOptions& options, int rank_count);
// What nccl-tests end with, then what ran and why, CPU seconds, ratios of contenders.
std::string write_perf_tail(const std::vector<PerfLine>& lines, const PerfSummary& summary,
                            const PerfOptions& options, int rank_count);
// nccl-tests' object (-J, version 3) with our fields besides.
std::string write_perf_json(const std::vector<PerfLine>& lines, const PerfSummary& summary,
                            const PerfOptions& options, const std::vector<RankLine>& ranks);

// "  39.50": two decimals, where they do not fit fewer, then an exponent.
std::string write_figure(double value, int width);

}  // namespace mccl
