#include "overlap/overlap_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/prng.h"
#include "overlap/overlap_real.h"
#include "overlap/overlap_report.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRanksMax = 1024;
constexpr int kBucketsMax = 10'000;
constexpr int kBarWidth = 40;
constexpr int kTimelineWidth = 60;

struct Options {
  LinkOptions link;
  std::vector<int> ranks = {24};
  int bucket_count = 18;
  std::string bucket_bytes = "25M";
  double forward_ms = 0;
  double backward_ms = 1090;
  double host_us = 20;
  double copy_gb_per_s = 100;
  double skew_ms = 0;
  uint64_t seed = 1;
  bool has_ablations = false;
  bool is_real = false;
  bool has_timeline = false;
  std::string plot;
};

TimeNs to_ns(double value, double unit_ns) {
  return static_cast<TimeNs>(value * unit_ns);
}

// Ranks of one machine share its memory and cores.
constexpr int kRealRanksMax = 16;

Result<StepRequest> read(const Options& options) {
  Result<LinkChoice> link = choose_link(options.link);
  if (!link.is_ok()) return link.status();
  const Result<int64_t> bytes = parse_bytes(options.bucket_bytes);
  if (!bytes.is_ok()) return bytes.status();
  for (const int ranks : options.ranks)
    MCCL_RETURN_IF_ERROR(
        check_range("--ranks", ranks, 2, options.is_real ? kRealRanksMax : kRanksMax));
  MCCL_RETURN_IF_ERROR(check_range("--buckets", options.bucket_count, 1, kBucketsMax));
  MCCL_RETURN_IF_ERROR(check_range("--forward-ms", options.forward_ms, 0, 1e7));
  MCCL_RETURN_IF_ERROR(check_range("--backward-ms", options.backward_ms, 0.001, 1e7));
  MCCL_RETURN_IF_ERROR(check_range("--host-us", options.host_us, 0, 1e6));
  MCCL_RETURN_IF_ERROR(check_range("--copy-gb-per-s", options.copy_gb_per_s, 0.001, 1e6));
  MCCL_RETURN_IF_ERROR(check_range("--skew-ms", options.skew_ms, 0, 1e6));
  return StepRequest{.link = std::move(link).value(),
                     .bucket_count = options.bucket_count,
                     .bucket_bytes = bytes.value(),
                     .forward_ns = to_ns(options.forward_ms, 1e6),
                     .backward_ns = to_ns(options.backward_ms, 1e6),
                     .host_ns = to_ns(options.host_us, 1e3),
                     .copy_bytes_per_second = options.copy_gb_per_s * 1e9};
}

std::vector<StepMode> modes_of(const Options& options) {
  if (!options.has_ablations)
    return {StepMode::Compute, StepMode::Communication, StepMode::Overlapped, StepMode::Serialized};
  if (options.is_real)
    return {StepMode::Compute,       StepMode::Communication,   StepMode::Overlapped,
            StepMode::Serialized,    StepMode::StagedAndWaited, StepMode::DrainPerBucket,
            StepMode::CopyAfterwards};
  return {StepMode::Compute,        StepMode::Communication,  StepMode::Overlapped,
          StepMode::Serialized,     StepMode::StagedOwnQueue, StepMode::StagedAndWaited,
          StepMode::DrainPerBucket, StepMode::CopyAfterwards};
}

FigureKind kind_of(const Options& options) {
  return options.is_real ? FigureKind::Measured : FigureKind::Simulated;
}

// "18 buckets of 25M, 1090 ms of compute, alpha 306.0 us, ... (paper); simulated"
std::string describe(const Options& options, const StepRequest& request) {
  const std::string where =
      options.is_real ? "TCP on loopback, devices that sleep"
                      : describe_costs(request.link.costs) + " (" + request.link.name + ")";
  return fmt::format("{} buckets of {}, {:.0f} ms of compute, {}; {}", request.bucket_count,
                     write_bytes(request.bucket_bytes),
                     static_cast<double>(request.forward_ns + request.backward_ns) / 1e6, where,
                     figure_kind_name(kind_of(options)));
}

bool is_yardstick(StepMode mode) {
  return mode == StepMode::Compute || mode == StepMode::Communication;
}

Json to_json(const Options& options, const StepRequest& request,
             const std::vector<OverlapReport>& reports) {
  Json json = {{"verb", "overlap"},
               {"kind", figure_kind_name(kind_of(options))},
               {"link", request.link.name},
               {"alpha_us", static_cast<double>(request.link.costs.alpha_ns) / 1e3},
               {"bytes_per_second", request.link.costs.bytes_per_second},
               {"buckets", request.bucket_count},
               {"bucket_bytes", request.bucket_bytes},
               {"forward_ms", static_cast<double>(request.forward_ns) / 1e6},
               {"backward_ms", static_cast<double>(request.backward_ns) / 1e6},
               {"hidden_bound", hidden_bound(request)},
               {"ranks", Json::array()}};
  for (const OverlapReport& report : reports) {
    Json entry = {{"ranks", report.rank_count}, {"steps", Json::array()}};
    for (const auto& [mode, step] : report.steps) {
      Json row = {{"mode", step_mode_name(mode)},
                  {"step_ms", static_cast<double>(step.step_ns) / 1e6},
                  {"host_waits", step.host_waits},
                  {"host_wait_ms", static_cast<double>(step.host_wait_ns) / 1e6},
                  {"device_waits", step.device_waits},
                  {"copies", step.copies},
                  {"buffered_bytes_max", step.buffered_bytes_max}};
      if (!is_yardstick(mode)) {
        row["hidden_share"] = report.hidden_share(mode);
        row["efficiency"] = report.efficiency(mode);
      }
      entry["steps"].push_back(row);
    }
    json["ranks"].push_back(entry);
  }
  return json;
}

void print(const Options& options, const StepRequest& request,
           const std::vector<OverlapReport>& reports, Terminal& terminal) {
  std::ostream& out = terminal.out;
  out << describe(options, request)
      << fmt::format(
             "\nat most {:.1f} % can be hidden: the last bucket begins when the compute ends\n",
             100 * hidden_bound(request));
  for (const OverlapReport& report : reports) {
    TimeNs longest = 1;
    for (const auto& [mode, step] : report.steps) longest = std::max(longest, step.step_ns);
    out << fmt::format("\n{} ranks {:>19} {:>8} {:>6} {:>7} {:>7} {:>7}\n", report.rank_count,
                       "step ms", "hidden", "eff.", "waits", "ms", "copies");
    for (const auto& [mode, step] : report.steps) {
      std::string line = fmt::format("  {:<18} {:>8.1f}", step_mode_name(mode),
                                     static_cast<double>(step.step_ns) / 1e6);
      line += is_yardstick(mode)
                  ? fmt::format(" {:>8} {:>6}", "", "")
                  : fmt::format(" {:>6.1f} % {:>4.1f} %", 100 * report.hidden_share(mode),
                                100 * report.efficiency(mode));
      line += fmt::format(
          " {:>6} {:>7.0f} {:>7}  {}", step.host_waits,
          static_cast<double>(step.host_wait_ns) / 1e6, step.copies,
          draw_bar(static_cast<double>(step.step_ns) / static_cast<double>(longest), kBarWidth));
      out << (mode == StepMode::Overlapped ? terminal.bold(line) : line) << "\n";
    }
    if (options.has_timeline)
      out << draw_timeline(report.steps.at(StepMode::Overlapped), kTimelineWidth);
  }
}

ExitCode run(const Options& options, Terminal& terminal) {
  Result<StepRequest> request = read(options);
  if (!request.is_ok()) return report(terminal, "overlap", request.status());
  std::ofstream plot;
  if (!options.plot.empty()) {
    plot.open(options.plot, std::ios::binary);
    if (!plot)
      return report(terminal, "overlap", wrong_usage(options.plot + ": cannot be written"));
  }
  std::vector<OverlapReport> reports;
  for (const int ranks : options.ranks) {
    request.value().rank_count = ranks;
    request.value().lateness_ns.assign(static_cast<size_t>(ranks), 0);
    Prng prng(options.seed);
    for (TimeNs& late_ns : request.value().lateness_ns)
      late_ns = to_ns(prng.unit() * options.skew_ms, 1e6);
    if (terminal.shows_progress)
      terminal.err << "\rmccl overlap: " << ranks << " ranks" << std::flush;
    Result<OverlapReport> made = make_overlap_report(request.value(), modes_of(options),
                                                     options.is_real ? &run_real_step : &run_step);
    if (!made.is_ok()) return report(terminal, "overlap", made.status());
    reports.push_back(std::move(made).value());
  }
  if (terminal.shows_progress) terminal.err << "\n";
  if (plot.is_open() && !(plot << draw_svg(describe(options, request.value()), reports)).flush())
    return report(terminal, "overlap", wrong_usage(options.plot + ": cannot be written"));
  if (terminal.is_json)
    terminal.out << to_json(options, request.value(), reports).dump(2) << "\n";
  else
    print(options, request.value(), reports, terminal);
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  options->link.link = "paper";
  app.add_option("--ranks", options->ranks, "Numbers of ranks, with commas (default 24)")
      ->delimiter(',');
  app.add_option("--buckets", options->bucket_count, "Gradient buckets of a step (default 18)");
  app.add_option("--bucket-bytes", options->bucket_bytes, "Bytes of a bucket (default 25M)");
  app.add_option("--forward-ms", options->forward_ms,
                 "Compute before the first bucket's kernels (default 0)");
  app.add_option("--backward-ms", options->backward_ms,
                 "Compute in which the buckets are written (default 1090)");
  app.add_option("--host-us", options->host_us,
                 "That the host needs to encode a bucket's kernels and its call (default 20)");
  app.add_option("--copy-gb-per-s", options->copy_gb_per_s,
                 "Rate of a copy to or from staging memory (default 100)");
  app.add_option("--skew-ms", options->skew_ms, "Each rank's step is late by a random time below");
  app.add_option("--seed", options->seed, "Of the skew (default 1)")->check(check_seed);
  app.add_flag("--ablations", options->has_ablations,
               "Also the simpler designs: staging, draining the device, copying afterwards");
  app.add_flag("--real", options->is_real,
               "On this machine: ranks over TCP on loopback, devices that sleep; measured");
  app.add_flag("--timeline", options->has_timeline, "When each bucket was ready and averaged");
  app.add_option("--plot", options->plot, "Writes the bars as an SVG picture");
  add_link_options(app, options->link);
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kOverlapVerb = {
    .name = "overlap",
    .summary = "how much of a step's communication its compute hides",
    .example =
        "  mccl overlap --ranks 4,8,16,24\n"
        "  mccl overlap --ranks 24 --ablations --plot overlap.svg\n"
        "  mccl overlap --real --ranks 2 --buckets 8 --bucket-bytes 4M --backward-ms 200 "
        "--timeline\n"
        "  mccl overlap --ranks 24 --forward-ms 430 --backward-ms 860   (the paper's ViT)",
    .declare = &declare};

}  // namespace mccl
