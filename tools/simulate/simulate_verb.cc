#include "simulate/simulate_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "algorithms/catalog.h"
#include "base/nearest_name.h"
#include "base/prng.h"
#include "comm/program_prover.h"
#include "ir/xml.h"
#include "planner/algorithm_list.h"
#include "simulate/simulation.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  LinkOptions link;
  std::string program;
  std::string collective = "all_reduce";
  std::optional<int> rank_count;  // none: the file's, or 24
  std::string bytes = "25M";
  int operation_count = 1;
  double skew_ms = 0;
  std::vector<std::string> late;
  double jitter = 0;
  uint64_t seed = 1;
  std::string segment = "9000";
  int ranks_per_switch = 0;
  int uplink_ports = 0;
  bool is_cold = false;
  std::string trace_file;
};

bool is_file_name(const std::string& program) {
  return program.ends_with(".xml") || program.find('/') != std::string::npos;
}

Status load_program(const std::string& name, SimulationRequest& request) {
  const Result<std::string> text = read_whole_file(name, nullptr);
  if (!text.is_ok()) return text.status();
  XmlReadResult read = read_xml(text.value());
  if (!read.is_ok()) return {StatusCode::NotProven, read.to_string(name)};
  Result<std::shared_ptr<const ProvenProgram>> proven =
      ProgramProver::prove(std::move(read.program));
  if (!proven.is_ok()) return proven.status();
  request.program = proven.value();
  const Program& program = request.program->program();
  request.collective = program.collective;
  if (request.rank_count != 0 && request.rank_count != program.rank_count())
    return wrong_usage(fmt::format("--ranks {}: {} is for {} ranks", request.rank_count, name,
                                   program.rank_count()));
  request.rank_count = program.rank_count();
  return Status::ok();
}

// "ring" of --op, or a full name; of a family with a group size or without.
Status find_program(const Options& options, SimulationRequest& request) {
  const auto collective = find_collective(options.collective);
  if (!collective) return wrong_usage(fmt::format("--op \"{}\" is unknown", options.collective));
  request.collective = *collective;
  if (options.program.empty()) return Status::ok();
  std::vector<std::string_view> names;
  const size_t size_at = std::min(options.program.find(':'), options.program.size());
  const std::string base = options.program.substr(0, size_at);
  for (const Algorithm* algorithm : catalog()) {
    const bool is_full = algorithm->name == base;
    if (is_full || (algorithm->collective == *collective &&
                    algorithm->name == fmt::format("{}_{}", options.collective, base))) {
      request.algorithm = std::string(algorithm->name) + options.program.substr(size_at);
      request.collective = algorithm->collective;
      return Status::ok();
    }
    names.push_back(algorithm->name);
  }
  return wrong_usage(
      fmt::format("there is no program \"{}\"; the nearest is {} (a file's name ends in "
                  ".xml)",
                  options.program, find_nearest_name(options.program, names)));
}

Status draw_lateness(const Options& options, SimulationRequest& request) {
  const auto limit = static_cast<double>(kNsPerSecond) * 3600;
  if (!(options.skew_ms >= 0) || options.skew_ms * 1e6 > limit)
    return wrong_usage(fmt::format("--skew-ms {}: allowed are 0 to 3600000", options.skew_ms));
  request.lateness_ns.assign(static_cast<size_t>(request.rank_count), 0);
  Prng prng(options.seed);
  if (options.skew_ms > 0)
    for (TimeNs& late_ns : request.lateness_ns)
      late_ns = std::llround(prng.unit() * options.skew_ms * 1e6);
  for (const std::string& text : options.late) {
    int rank = -1;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, rank);
    double late_ms = -1;
    if (error == std::errc() && stop != end && *stop == '=') {
      const auto [last, fault] = std::from_chars(stop + 1, end, late_ms);
      if (fault != std::errc() || last != end) late_ms = -1;
    }
    if (rank < 0 || rank >= request.rank_count || !(late_ms >= 0) || late_ms * 1e6 > limit)
      return wrong_usage(fmt::format("--late \"{}\" is not RANK=MILLISECONDS with a rank below {}",
                                     text, request.rank_count));
    request.lateness_ns[static_cast<size_t>(rank)] = std::llround(late_ms * 1e6);
  }
  return Status::ok();
}

Result<SimulationRequest> read(const Options& options) {
  SimulationRequest request;
  if (options.rank_count)
    MCCL_RETURN_IF_ERROR(check_range("--ranks", *options.rank_count, 2, kSimulationRanksMax));
  request.rank_count = options.rank_count.value_or(0);
  Result<LinkChoice> link = choose_link(options.link);
  if (!link.is_ok()) return link.status();
  request.link = std::move(link).value();
  MCCL_RETURN_IF_ERROR(is_file_name(options.program) ? load_program(options.program, request)
                                                     : find_program(options, request));
  if (request.rank_count == 0) request.rank_count = 24;
  MCCL_RETURN_IF_ERROR(check_range("--ranks", request.rank_count, 2, kSimulationRanksMax));
  MCCL_RETURN_IF_ERROR(
      check_range("--count", options.operation_count, 1, kSimulationOperationsMax));
  MCCL_RETURN_IF_ERROR(check_range("--jitter", options.jitter, 0, 100));
  MCCL_RETURN_IF_ERROR(
      check_range("--ranks-per-switch", options.ranks_per_switch, 0, kSimulationRanksMax));
  MCCL_RETURN_IF_ERROR(check_range("--uplink-ports", options.uplink_ports, 0, kSimulationRanksMax));
  const Result<int64_t> bytes = parse_bytes(options.bytes);
  if (!bytes.is_ok()) return bytes.status();
  const Result<int64_t> segment = parse_bytes(options.segment);
  if (!segment.is_ok()) return segment.status();
  MCCL_RETURN_IF_ERROR(check_range("--segment", static_cast<double>(segment.value()), 64, 1 << 20));
  request.bytes = bytes.value();
  request.operation_count = options.operation_count;
  request.is_cold = options.is_cold;
  request.world.seed = options.seed;
  request.world.latency_jitter = options.jitter;
  request.world.segment_bytes_max = static_cast<size_t>(segment.value());
  request.world.nodes_per_switch = options.ranks_per_switch;
  request.world.uplink_ports = options.uplink_ports;
  MCCL_RETURN_IF_ERROR(draw_lateness(options, request));
  return request;
}

// Least, mean and largest of a figure over the ranks.
struct Spread {
  double least = 0, mean = 0, largest = 0;

  template <typename Number>
  static Spread of(const std::vector<Number>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    return {static_cast<double>(*low), sum / static_cast<double>(values.size()),
            static_cast<double>(*high)};
  }
  Json to_json(double unit) const {
    return {{"min", least / unit}, {"mean", mean / unit}, {"max", largest / unit}};
  }
};

struct Figures {
  double time_ns;  // per operation, until the last rank is done
  double bus_bytes_per_second;
  double share_of_link;
  Spread completion_ns, bytes_sent, buffered_bytes;
};

Figures make_figures(const SimulationRequest& request, const SimulationReport& report) {
  Figures figures{};
  figures.time_ns = static_cast<double>(report.duration_ns()) / request.operation_count;
  figures.bus_bytes_per_second =
      bus_bytes_per_second(request.collective, request.rank_count, report.bytes, figures.time_ns);
  figures.share_of_link =
      figures.bus_bytes_per_second / static_cast<double>(request.link.costs.bytes_per_second);
  figures.completion_ns = Spread::of(report.completion_ns);
  figures.bytes_sent = Spread::of(report.bytes_sent);
  figures.buffered_bytes = Spread::of(report.buffered_bytes_max);
  return figures;
}

Json to_json(const SimulationRequest& request, const SimulationReport& report, uint64_t seed) {
  const Figures figures = make_figures(request, report);
  Json json = {{"verb", "simulate"},
               {"kind", "simulated"},
               {"collective", collective_name(request.collective)},
               {"program", report.program},
               {"reason", report.reason},
               {"ranks", request.rank_count},
               {"bytes", report.bytes},
               {"count", request.operation_count},
               {"link", request.link.name},
               {"alpha_us", static_cast<double>(request.link.costs.alpha_ns) / 1e3},
               {"bytes_per_second", request.link.costs.bytes_per_second},
               {"seed", seed},
               {"time_us", figures.time_ns / 1e3},
               {"busbw_gb_per_s", figures.bus_bytes_per_second / 1e9},
               {"share_of_link", figures.share_of_link},
               {"completion_us", figures.completion_ns.to_json(1e3)},
               {"bytes_sent", figures.bytes_sent.to_json(1)},
               {"buffered_bytes", figures.buffered_bytes.to_json(1)}};
  if (report.modelled_ns > 0) json["modelled_us"] = report.modelled_ns / 1e3;
  json["rows"] = {
      {{"ranks", request.rank_count}, {"bytes", report.bytes}, {"time_us", figures.time_ns / 1e3}}};
  return json;
}

void print(const SimulationRequest& request, const SimulationReport& report, Terminal& terminal) {
  const Figures figures = make_figures(request, report);
  std::ostream& out = terminal.out;
  out << fmt::format("{}, {} ranks, {} bytes, {} operation{}, {} ({}); simulated\n",
                     terminal.bold(report.program), request.rank_count, report.bytes,
                     request.operation_count, request.operation_count == 1 ? "" : "s",
                     describe_wire(request.link.costs), request.link.name);
  out << fmt::format("  chosen           {}\n", report.reason);
  out << fmt::format("  time             {:.3f} ms an operation", figures.time_ns / 1e6);
  if (report.modelled_ns > 0)
    out << fmt::format(" (one alone {:.3f} ms modelled)", report.modelled_ns / 1e6);
  out << fmt::format("\n  busbw            {:.3f} GB/s, {:.1f} % of the link\n",
                     figures.bus_bytes_per_second / 1e9, 100 * figures.share_of_link);
  const auto row = [&](const char* name, const Spread& spread, double unit, int digits) {
    out << fmt::format("  {:<16} min {:.{}f}, mean {:.{}f}, max {:.{}f}\n", name,
                       spread.least / unit, digits, spread.mean / unit, digits,
                       spread.largest / unit, digits);
  };
  row("completion ms", figures.completion_ns, 1e6, 3);
  row("bytes sent", figures.bytes_sent, 1, 0);
  row("bytes buffered", figures.buffered_bytes, 1, 0);
}

ExitCode run(const Options& options, Terminal& terminal) {
  Result<SimulationRequest> request = read(options);
  if (!request.is_ok()) return report(terminal, "simulate", request.status());
  std::ofstream trace_file;
  std::unique_ptr<StepTrace> trace;
  if (!options.trace_file.empty()) {
    trace_file.open(options.trace_file, std::ios::binary);
    if (!trace_file)
      return report(terminal, "simulate", wrong_usage(options.trace_file + ": cannot be written"));
    trace = std::make_unique<StepTrace>(trace_file, request.value().rank_count);
    request.value().trace = trace.get();
  }
  if (terminal.shows_progress)
    request.value().on_progress = [&](int percent) {
      terminal.err << "\rmccl simulate: " << percent << " %" << (percent == 100 ? "\n" : "")
                   << std::flush;
    };
  const Result<SimulationReport> report = simulate(request.value());
  if (!report.is_ok()) return mccl::report(terminal, "simulate", report.status());
  if (trace != nullptr) {
    trace->end();
    if (!trace_file.flush())
      return mccl::report(terminal, "simulate",
                          wrong_usage(options.trace_file + ": cannot be written"));
    terminal.err << fmt::format("mccl simulate: {} events in {}\n", trace->event_count(),
                                options.trace_file);
  }
  if (terminal.is_json)
    terminal.out << to_json(request.value(), report.value(), options.seed).dump(2) << "\n";
  else
    print(request.value(), report.value(), terminal);
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("PROGRAM", options->program,
                 "A built-in (ring, all_reduce_ring, ...) or an XML file, which is verified first; "
                 "none: the planner's choice");
  app.add_option("--op", options->collective, "Collective (default all_reduce)");
  app.add_option("--ranks", options->rank_count,
                 "Number of ranks (default 24; a file has its own)");
  app.add_option("--bytes", options->bytes, "Size S of one operation (default 25M)");
  app.add_option("--count", options->operation_count, "Operations back to back (default 1)");
  app.add_option("--skew-ms", options->skew_ms, "Each rank is late by a random time below this");
  app.add_option("--late", options->late, "RANK=MILLISECONDS: this rank is late by so much");
  app.add_option("--jitter", options->jitter,
                 "A latency is alpha * (1 + a random number below this)");
  app.add_option("--seed", options->seed, "Of skew and jitter (default 1)")->check(check_seed);
  app.add_option("--segment", options->segment,
                 "Packet length: what ports carry at a time (default 9000)");
  app.add_option("--ranks-per-switch", options->ranks_per_switch,
                 "Ranks on a switch (default 0: all on one)");
  app.add_option("--uplink-ports", options->uplink_ports,
                 "A switch's uplink in ports of a rank (default 0: never the limit)");
  app.add_flag("--cold", options->is_cold, "Connections are made by the first operation");
  app.add_option("--trace", options->trace_file,
                 "Writes a trace for ui.perfetto.dev or chrome://tracing");
  add_link_options(app, options->link);
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kSimulateVerb = {
    .name = "simulate",
    .summary = "a program on a network, by the real engine in virtual time",
    .example =
        "  mccl simulate ring --ranks 24 --bytes 25M --link paper\n"
        "  mccl simulate my_program.xml --bytes 1M --skew-ms 2 --seed 7 --trace trace.json",
    .declare = &declare};

}  // namespace mccl
