#include "perf/perf_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/algorithm_list.h"
#include "verb/verb.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTimeWidth = 7;
constexpr int kRateWidth = 6;
constexpr double kGigabyte = 1e9;

std::string write_wrong(const PerfFigures& figures) {
  return figures.wrong < 0 ? "N/A" : std::to_string(figures.wrong);
}

std::string write_group(const std::optional<PerfFigures>& figures, const PerfLine& line,
                        const PerfOptions& options, int rank_count) {
  if (!figures) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const PerfRates rates =
      rates_of(*figures, options.collective, rank_count, line.bytes, line.calls);
  return fmt::format("  {}  {}  {}  {:>6}", write_figure(rates.time_us, kTimeWidth),
                     write_figure(rates.algbw, kRateWidth), write_figure(rates.busbw, kRateWidth),
                     write_wrong(*figures));
}

std::string_view average_name(RankAverage average) {
  switch (average) {
    case RankAverage::RankZero:
      return "rank 0's";
    case RankAverage::Mean:
      return "the mean of all ranks";
    case RankAverage::Min:
      return "that of the fastest rank";
    case RankAverage::Max:
      break;
  }
  return "that of the slowest rank";
}

std::string contender_name(const std::string& algo) {
  return algo.empty() ? "the planner's choice" : algo;
}

// What both column groups of a line say of programs, added up.
std::vector<ServedProgram> programs_of(const PerfLine& line) {
  std::vector<ServedProgram> programs;
  for (const auto& figures : {line.out_of_place, line.in_place}) {
    if (!figures) continue;
    for (const ServedProgram& served : figures->programs) {
      const auto found =
          std::find_if(programs.begin(), programs.end(), [&](const ServedProgram& one) {
            return one.program == served.program && one.reason == served.reason;
          });
      if (found == programs.end())
        programs.push_back(served);
      else
        found->calls += served.calls;
    }
  }
  return programs;
}

double cpu_seconds_per_gb(const PerfLine& line) {
  double seconds = 0;
  int64_t calls = 0;
  for (const auto& figures : {line.out_of_place, line.in_place}) {
    if (!figures) continue;
    seconds += figures->cpu_seconds;
    calls += line.calls;
  }
  const double bytes = static_cast<double>(line.bytes) * static_cast<double>(calls);
  return bytes > 0 ? seconds / (bytes / kGigabyte) : 0;
}

std::string write_programs(const std::vector<PerfLine>& lines) {
  std::string text =
      "# Programs that ran (measured; CPU seconds are of all ranks, per GB of size)\n";
  for (const PerfLine& line : lines) {
    const std::vector<ServedProgram> programs = programs_of(line);
    for (const ServedProgram& served : programs) {
      const bool is_first = &served == &programs.front();
      text += fmt::format("# {:>10}  {:>8}  {:<34} {:>8} calls  {}\n",
                          is_first ? std::to_string(line.bytes) : "",
                          is_first ? fmt::format("{:.3f}", cpu_seconds_per_gb(line)) : "",
                          served.program, served.calls, served.reason);
    }
    if (programs.empty())
      text += fmt::format("# {:>10}  {:>8}  no program: nothing travels\n", line.bytes,
                          fmt::format("{:.3f}", cpu_seconds_per_gb(line)));
  }
  return text;
}

// Lines come contender by contender, size by size.
template <class Visit>
void visit_rivals(const std::vector<PerfLine>& lines, size_t contenders, Visit visit) {
  for (size_t first = 0; contenders > 1 && first + contenders <= lines.size(); first += contenders)
    for (size_t other = 1; other < contenders; ++other) visit(lines[first], lines[first + other]);
}

std::string write_ratio(const PerfLine& first, const PerfLine& other,
                        const std::optional<PerfFigures>& first_figures,
                        const std::optional<PerfFigures>& other_figures, std::string_view place) {
  if (!first_figures || !other_figures) return {};
  const RatioSpread spread =
      spread_ratios(first_figures->iteration_us, other_figures->iteration_us);
  return fmt::format("# {:>10}  {:<12}  {} over {}: median {:.3f} ({:.3f} to {:.3f}, {} rounds)\n",
                     first.bytes, place, contender_name(first.algo), contender_name(other.algo),
                     spread.median, spread.min, spread.max, spread.rounds);
}

std::string write_ratios(const std::vector<PerfLine>& lines, const PerfOptions& options) {
  if (options.algos.size() < 2) return {};
  std::string text =
      "# Time of the first over time of the other, round by round, in turns (measured)\n";
  visit_rivals(lines, options.algos.size(), [&](const PerfLine& first, const PerfLine& other) {
    text += write_ratio(first, other, first.out_of_place, other.out_of_place, "out-of-place");
    text += write_ratio(first, other, first.in_place, other.in_place, "in-place");
  });
  return text;
}

bool has_served(const std::vector<PerfLine>& lines, const std::string& algo) {
  const Result<AlgorithmList> list = parse_algorithm_list(algo, catalog());
  for (const PerfLine& line : lines) {
    if (line.algo != algo) continue;
    for (const ServedProgram& served : programs_of(line)) {
      if (served.calls == 0) continue;
      if (served.program == algo) return true;
      if (!list.is_ok()) continue;
      const ProgramChoice choice = find_choice(served.program, catalog());
      if (choice.algorithm != nullptr &&
          list_mentions(list.value(), choice) != list.value().is_exclusion)
        return true;
    }
  }
  return false;
}

Json to_json(const PerfFigures& figures, const PerfLine& line, const PerfOptions& options,
             int rank_count) {
  const PerfRates rates = rates_of(figures, options.collective, rank_count, line.bytes, line.calls);
  Json json = {{"time", rates.time_us}, {"alg_bw", rates.algbw}, {"bus_bw", rates.busbw}};
  json["nwrong"] = figures.wrong < 0 ? Json("N/A") : Json(figures.wrong);
  json["cpu_seconds_per_gb"] = rates.cpu_seconds_per_gb;
  json["programs"] = Json::array();
  for (const ServedProgram& served : figures.programs)
    json["programs"].push_back(
        {{"program", served.program}, {"calls", served.calls}, {"reason", served.reason}});
  return json;
}

Json ratio_json(const std::optional<PerfFigures>& first, const std::optional<PerfFigures>& other) {
  if (!first || !other) return nullptr;
  const RatioSpread spread = spread_ratios(first->iteration_us, other->iteration_us);
  return {{"median", spread.median},
          {"min", spread.min},
          {"max", spread.max},
          {"rounds", spread.rounds}};
}

Json config_json(const PerfOptions& options, const std::vector<RankLine>& ranks) {
  Json config = {{"nthreads", 1},
                 {"ngpus", 1},
                 {"minimum_bytes", options.sizes.front()},
                 {"maximum_bytes", options.sizes.back()}};
  if (options.step_factor != 0)
    config["step_factor"] = options.step_factor;
  else
    config["step_bytes"] = options.step_bytes;
  config["warmup_iters"] = options.warmup_count;
  config["iterations"] = options.iteration_count;
  config["aggregated_iterations"] = options.aggregate_count;
  config["validation"] = options.is_checked ? 1 : 0;
  config["graph"] = 0;
  config["devices"] = Json::array();
  for (const RankLine& rank : ranks)
    config["devices"].push_back({{"rank", rank.rank},
                                 {"pid", rank.pid},
                                 {"hostname", rank.host},
                                 {"device", rank.rank},
                                 {"device_name", rank.processor}});
  return config;
}

}  // namespace

PerfSummary summarize(const std::vector<PerfLine>& lines, const PerfOptions& options,
                      int rank_count) {
  PerfSummary summary{.is_checked = options.is_checked};
  double sum = 0;
  int groups = 0;
  for (const PerfLine& line : lines)
    for (const auto& figures : {line.out_of_place, line.in_place}) {
      if (!figures) continue;
      summary.wrong += std::max<int64_t>(0, figures->wrong);
      sum += rates_of(*figures, options.collective, rank_count, line.bytes, line.calls).busbw;
      ++groups;
    }
  if (groups > 0) summary.average_busbw = sum / groups;
  for (const std::string& algo : options.algos)
    if (!algo.empty() && !has_served(lines, algo)) summary.unserved.push_back(algo);
  return summary;
}

std::string write_perf_head(const PerfOptions& options, const std::vector<RankLine>& ranks) {
  std::string text = fmt::format(
      "# Collective test starting: {}\n"
      "# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {} warmup iters: {} iters: {} agg iters: "
      "{} validation: {} graph: 0 unalign: 0\n"
      "#\n# mccl, {} ranks: a call's time is {}; every figure is measured\n"
      "#\n# Using devices\n",
      perf_program_name(options.collective), options.sizes.front(), options.sizes.back(),
      options.step_factor != 0 ? fmt::format("{}(factor)", options.step_factor)
                               : fmt::format("{}(bytes)", options.step_bytes),
      options.warmup_count, options.iteration_count, options.aggregate_count,
      options.is_checked ? 1 : 0, ranks.size(), average_name(options.average));
  for (const RankLine& rank : ranks)
    text += fmt::format("#  Rank {:>2} Group  0 Pid {:>6} on {:>10} device {:>2} [0000:00:00] {}\n",
                        rank.rank, rank.pid, rank.host, rank.rank, rank.processor);
  text += fmt::format(
      "#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       "
      "in-place          \n",
      "", "", "", "", "");
  text += fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop",
                      "root");
  for (int group = 0; group < 2; ++group)
    text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong");
  text += fmt::format(" \n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int group = 0; group < 2; ++group)
    text += fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  return text + " \n";
}

std::string write_perf_line(const PerfLine& line, const PerfOptions& options, int rank_count) {
  std::string text = fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", line.bytes, line.count,
                                 perf_dtype_name(line.dtype),
                                 line.op ? perf_op_name(*line.op) : "none", line.root);
  text += write_group(line.out_of_place, line, options, rank_count);
  text += write_group(line.in_place, line, options, rank_count);
  if (options.algos.size() > 1) text += "  " + contender_name(line.algo);
  return text + "\n";
}

std::string write_perf_tail(const std::vector<PerfLine>& lines, const PerfSummary& summary,
                            const PerfOptions& options, int rank_count) {
  std::string verdict;
  if (summary.least_busbw) verdict = summary.is_fast_enough() ? "OK" : "FAILED";
  std::string text = fmt::format(
      "# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g} {}\n#\n"
      "# Collective test concluded: {}\n#\n",
      summary.wrong, summary.wrong == 0 ? "OK" : "FAILED", summary.average_busbw, verdict,
      perf_program_name(options.collective));
  if (rank_count > 1) text += write_programs(lines);
  text += write_ratios(lines, options);
  for (const std::string& algo : summary.unserved)
    text += fmt::format("# --algo {} served no call\n", algo);
  return text;
}

std::string write_perf_json(const std::vector<PerfLine>& lines, const PerfSummary& summary,
                            const PerfOptions& options, const std::vector<RankLine>& ranks) {
  const int rank_count = static_cast<int>(ranks.size());
  Json json = {{"version", 3},
               {"verb", "perf"},
               {"collective", collective_name(options.collective)},
               {"ranks", rank_count},
               {"kind", figure_kind_name(FigureKind::Measured)},
               {"config", config_json(options, ranks)},
               {"results", Json::array()},
               {"ratios", Json::array()}};
  for (const PerfLine& line : lines) {
    Json result = {{"size", line.bytes},
                   {"count", line.count},
                   {"type", perf_dtype_name(line.dtype)},
                   {"redop", line.op ? perf_op_name(*line.op) : "none"},
                   {"root", line.root},
                   {"algo", line.algo}};
    if (line.out_of_place)
      result["out_of_place"] = to_json(*line.out_of_place, line, options, rank_count);
    if (line.in_place) result["in_place"] = to_json(*line.in_place, line, options, rank_count);
    json["results"].push_back(result);
  }
  visit_rivals(lines, options.algos.size(), [&](const PerfLine& first, const PerfLine& other) {
    json["ratios"].push_back({{"size", first.bytes},
                              {"first", first.algo},
                              {"other", other.algo},
                              {"out_of_place", ratio_json(first.out_of_place, other.out_of_place)},
                              {"in_place", ratio_json(first.in_place, other.in_place)}});
  });
  json["unserved"] = summary.unserved;
  json["out_of_bounds"] = {{"count", summary.wrong}, {"okay", summary.wrong == 0}};
  json["average_bus_bandwidth"] = {{"bandwidth", summary.average_busbw}};
  return json.dump(2) + "\n";
}

std::string write_figure(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:>{}.{}f}", value, width, decimals);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return fmt::format("{:>{}.1e}", value, width);
}

}  // namespace mccl
