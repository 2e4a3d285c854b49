#include "tune/tune_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ir/xml.h"
#include "verb/verb.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

const PerfFigures& figures_of(const PerfLine& line) {
  return line.in_place ? *line.in_place : *line.out_of_place;
}

double mean_us(const PerfLine& line) {
  double sum = 0;
  for (const double time_us : figures_of(line).iteration_us) sum += time_us;
  return sum / static_cast<double>(figures_of(line).iteration_us.size());
}

TunePoint point_of(const PerfLine& first, const PerfLine& other) {
  return {.bytes = first.bytes,
          .first_us = mean_us(first),
          .other_us = mean_us(other),
          .ratio = spread_ratios(figures_of(first).iteration_us, figures_of(other).iteration_us)};
}

int64_t border_of(const MeasuredCrossover& crossover) {
  return static_cast<int64_t>(std::llround(crossover.bytes));
}

// The faster one below the border, and from there on.
std::pair<std::string, std::string> sides_of(const TuneReport& report) {
  if (report.crossover->is_first_small) return {report.first, report.other};
  return {report.other, report.first};
}

std::string write_verdict(const TuneReport& report) {
  if (!report.crossover) {
    if (report.points.empty()) return "nothing was measured\n";
    std::vector<RatioPoint> points;
    for (const TunePoint& point : report.points)
      points.push_back({.bytes = point.bytes, .ratio = point.ratio.median});
    const Split split = find_split(points);
    const bool is_first = (split.below == points.size()) == split.is_first_small;
    return fmt::format("no crossover: {} is the faster one from {} to {} bytes (measured)\n",
                       is_first ? report.first : report.other, report.points.front().bytes,
                       report.points.back().bytes);
  }
  const auto [small, large] = sides_of(report);
  return fmt::format("{} below {} bytes, {} from there on (measured, between {} and {})\n", small,
                     border_of(*report.crossover), large, report.crossover->below_bytes,
                     report.crossover->above_bytes);
}

}  // namespace

std::vector<RatioPoint> ratio_points(std::span<const PerfLine> lines) {
  std::vector<RatioPoint> points;
  for (size_t index = 0; index + 1 < lines.size(); index += 2) {
    const TunePoint point = point_of(lines[index], lines[index + 1]);
    // Blocks that are rounded down to nothing take no call.
    if (point.bytes > 0 && point.ratio.rounds > 0)
      points.push_back({.bytes = point.bytes, .ratio = point.ratio.median});
  }
  std::sort(points.begin(), points.end(), [](const RatioPoint& left, const RatioPoint& right) {
    return left.bytes < right.bytes;
  });
  return points;
}

TuneReport make_tune_report(const std::vector<PerfLine>& lines, const PerfOptions& options,
                            int rank_count, size_t coarse_count) {
  TuneReport report{.collective = options.collective,
                    .rank_count = rank_count,
                    .is_in_place = !lines.empty() && lines.front().in_place.has_value(),
                    .first = options.algos[0],
                    .other = options.algos[1],
                    .points = {},
                    .crossover = {}};
  for (size_t index = 0; index + 1 < lines.size(); index += 2)
    report.points.push_back(point_of(lines[index], lines[index + 1]));
  std::stable_sort(
      report.points.begin(), report.points.end(),
      [](const TunePoint& left, const TunePoint& right) { return left.bytes < right.bytes; });
  const bool has_closer = lines.size() > 2 * coarse_count;
  report.crossover =
      find_crossover(ratio_points(std::span(lines).subspan(has_closer ? 2 * coarse_count : 0)));
  return report;
}

std::string write_tune_report(const TuneReport& report) {
  std::string text = fmt::format(
      "{} among {} ranks, {}, {} against {}, call by call in turns; every figure is measured\n"
      "{:>12} {:>12} {:>12}  {:>7}  {}\n",
      collective_name(report.collective), report.rank_count,
      report.is_in_place ? "in place" : "out of place", report.first, report.other, "bytes",
      "first us", "other us", "ratio", "min to max");
  for (const TunePoint& point : report.points)
    text += fmt::format("{:>12} {:>12.1f} {:>12.1f}  {:>7.3f}  {:.3f} to {:.3f}\n", point.bytes,
                        point.first_us, point.other_us, point.ratio.median, point.ratio.min,
                        point.ratio.max);
  return text + write_verdict(report);
}

std::string write_tune_json(const TuneReport& report) {
  Json json = {{"verb", "tune"},
               {"collective", collective_name(report.collective)},
               {"ranks", report.rank_count},
               {"kind", figure_kind_name(FigureKind::Measured)},
               {"is_in_place", report.is_in_place},
               {"first", report.first},
               {"other", report.other},
               {"sizes", Json::array()},
               {"crossover", nullptr}};
  for (const TunePoint& point : report.points)
    json["sizes"].push_back({{"bytes", point.bytes},
                             {"first_us", point.first_us},
                             {"other_us", point.other_us},
                             {"ratio", point.ratio.median},
                             {"ratio_min", point.ratio.min},
                             {"ratio_max", point.ratio.max},
                             {"rounds", point.ratio.rounds}});
  if (report.crossover) {
    const auto [small, large] = sides_of(report);
    json["crossover"] = {{"bytes", border_of(*report.crossover)},
                         {"below", small},
                         {"from", large},
                         {"below_bytes", report.crossover->below_bytes},
                         {"above_bytes", report.crossover->above_bytes}};
  }
  return json.dump(2) + "\n";
}

Result<std::string> write_window(const std::string& file_name, const std::string& text,
                                 const TuneReport& report, const std::string& served) {
  XmlReadResult read = read_xml(text);
  if (!read.is_ok()) return wrong_usage(read.to_string(file_name));
  const Program& program = read.program;
  if (program.collective != report.collective || program.rank_count() != report.rank_count)
    return wrong_usage(
        fmt::format("{} is a program of {} among {} ranks, and measured was {} among "
                    "{}",
                    file_name, collective_name(program.collective), program.rank_count(),
                    collective_name(report.collective), report.rank_count));
  if (program.name != served)
    return wrong_usage(
        fmt::format("{} is the program {}, and the calls of --algo {} were served "
                    "by {}",
                    file_name, program.name, report.first, served));
  const int64_t border = border_of(*report.crossover);
  if (report.crossover->is_first_small) {
    read.use.begin_bytes = 0;
    read.use.end_bytes = border;
  } else {
    read.use.begin_bytes = border;
    read.use.end_bytes = ProgramUse::kEndless;
  }
  return write_xml(program, read.dialect, read.use);
}

}  // namespace mccl
