// What `mccl tune` found out: the times of two programs over sizes, and where they cross. Pure, but
// for the file that it writes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "perf/perf_options.h"
#include "perf/perf_table.h"
#include "tune/crossover.h"

namespace mccl {

// One size, in the order of measuring. Measured.
struct TunePoint {
  int64_t bytes = 0;
  double first_us = 0;  // means over the iterations
  double other_us = 0;
  RatioSpread ratio = {};  // first over other, round by round
};

struct TuneReport {
  Collective collective = Collective::AllReduce;
  int rank_count = 0;
  bool is_in_place = true;
  std::string first;  // as --algo names them
  std::string other;
  std::vector<TunePoint> points;  // by size
  std::optional<MeasuredCrossover> crossover;
};

// `lines` are those of two contenders in turns; `coarse_count` of the sizes came first, and the
// crossover is sought in the later ones alone, if there are any.
TuneReport make_tune_report(const std::vector<PerfLine>& lines, const PerfOptions& options,
                            int rank_count, size_t coarse_count);

// The points of the lines, two lines a point, by size.
std::vector<RatioPoint> ratio_points(std::span<const PerfLine> lines);

std::string write_tune_report(const TuneReport& report);
std::string write_tune_json(const TuneReport& report);

// `text` is an XML file of the first program: the same file with the window in which that is the
// faster one. Requires a crossover. InvalidArgument when it is no such file, of another collective,
// rank count or program than `served`.
Result<std::string> write_window(const std::string& file_name, const std::string& text,
                                 const TuneReport& report, const std::string& served);

}  // namespace mccl
