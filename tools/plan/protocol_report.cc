#include "plan/protocol_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "verb/verb.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

// The smallest whole size from which a crossover's program is the faster one.
int64_t first_bytes(const StepCrossover& crossover) {
  return static_cast<int64_t>(std::ceil(crossover.begin_bytes));
}

// Indices of the lines, the fastest first; equals stay in catalogue order.
std::vector<size_t> order_of(const ProtocolReport& report, int64_t bytes) {
  std::vector<size_t> order(report.lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return report.lines[left].time_ns(bytes) < report.lines[right].time_ns(bytes);
  });
  return order;
}

double busbw(const ProtocolReport& report, const StepLine& line, int64_t bytes) {
  const double time_ns = line.time_ns(bytes);
  return time_ns > 0
             ? bus_bytes_per_second(report.collective, report.rank_count, bytes, time_ns) / 1e9
             : 0;
}

// Of two times of nothing none is the slower one.
double slowdown(double time_ns, double best_ns) {
  return best_ns > 0 ? time_ns / best_ns : 1;
}

}  // namespace

Result<ProtocolReport> make_protocol_report(const LinkChoice& link, Collective collective,
                                            int rank_count, const std::vector<int64_t>& sizes,
                                            const std::vector<ProtocolChoice>& choices) {
  Result<std::vector<StepLine>> lines =
      make_step_lines(link.costs, collective, rank_count, choices);
  if (!lines.is_ok()) return lines.status();
  return ProtocolReport{.collective = collective,
                        .rank_count = rank_count,
                        .link = link,
                        .sizes = sizes,
                        .lines = std::move(lines).value()};
}

size_t fastest_line(const ProtocolReport& report, int64_t bytes) {
  return order_of(report, bytes).front();
}

std::string write_protocol_report(const ProtocolReport& report) {
  std::string text = fmt::format(
      "{} among {} ranks, {} ({}), T = hops alpha + moved S / (B e), e by protocol; every figure "
      "is modelled\n{:>8}   {:<34} {:<8} {:>12} {:>8} {:>10}\n",
      collective_name(report.collective), report.rank_count, describe_wire(report.link.costs),
      report.link.name, "size", "program", "protocol", "time us", "busbw", "x fastest");
  for (const int64_t bytes : report.sizes) {
    const std::vector<size_t> order = order_of(report, bytes);
    const double best_ns = report.lines[order.front()].time_ns(bytes);
    for (const size_t index : order) {
      const StepLine& line = report.lines[index];
      const bool is_first = index == order.front();
      text += fmt::format("{:>8} {} {:<34} {:<8} {:>12.2f} {:>8.3f} {:>10.2f}\n",
                          is_first ? write_bytes(bytes) : "", is_first ? "*" : " ", line.program,
                          msccl_protocol_name(line.protocol), line.time_ns(bytes) / 1e3,
                          busbw(report, line, bytes), slowdown(line.time_ns(bytes), best_ns));
    }
  }
  for (const StepCrossover& one : find_crossovers(report.lines)) {
    const StepLine& line = report.lines[one.index];
    text += fmt::format("from {} bytes on: {} ({})\n", first_bytes(one), line.program,
                        msccl_protocol_name(line.protocol));
  }
  return text;
}

std::string write_protocol_report_json(const ProtocolReport& report) {
  Json json = {{"verb", "plan"},
               {"model", "steps"},
               {"collective", collective_name(report.collective)},
               {"ranks", report.rank_count},
               {"link", report.link.name},
               {"alpha_us", static_cast<double>(report.link.costs.alpha_ns) / 1e3},
               {"bytes_per_second", report.link.costs.bytes_per_second},
               {"kind", figure_kind_name(FigureKind::Modelled)},
               {"sizes", Json::array()},
               {"crossovers", Json::array()}};
  for (const int64_t bytes : report.sizes) {
    Json entry = {{"bytes", bytes}, {"programs", Json::array()}};
    const std::vector<size_t> order = order_of(report, bytes);
    const double best_ns = report.lines[order.front()].time_ns(bytes);
    for (const size_t index : order) {
      const StepLine& line = report.lines[index];
      entry["programs"].push_back({{"program", line.program},
                                   {"protocol", msccl_protocol_name(line.protocol)},
                                   {"is_chosen", index == order.front()},
                                   {"time_us", line.time_ns(bytes) / 1e3},
                                   {"busbw_gb_per_s", busbw(report, line, bytes)},
                                   {"times_the_fastest", slowdown(line.time_ns(bytes), best_ns)}});
    }
    json["sizes"].push_back(entry);
  }
  for (const StepCrossover& one : find_crossovers(report.lines))
    json["crossovers"].push_back(
        {{"from_bytes", first_bytes(one)},
         {"program", report.lines[one.index].program},
         {"protocol", msccl_protocol_name(report.lines[one.index].protocol)}});
  return json.dump(2) + "\n";
}

std::vector<PlotCurve> protocol_curves(const ProtocolReport& report) {
  std::vector<PlotCurve> curves;
  for (const StepLine& line : report.lines) {
    PlotCurve curve{
        .name = fmt::format("{} ({})", line.program, msccl_protocol_name(line.protocol)),
        .points = {}};
    for (const int64_t bytes : report.sizes)
      curve.points.push_back({.bytes = bytes, .time_ns = line.time_ns(bytes)});
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace mccl
