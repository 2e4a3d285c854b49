#include "plan/plan_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "plan/plan_plot.h"
#include "plan/plan_report.h"
#include "plan/protocol_report.h"
#include "plan/step_model.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kRanksMax = 4096;
constexpr int kBarWidth = 20;

struct Options {
  LinkOptions link;
  int rank_count = 24;
  std::string collective = "all_reduce";
  std::string sizes;
  std::string algo;
  std::string protocol;
  std::string plot;
  bool is_limit_wanted = false;
};

struct Inputs {
  LinkChoice link;
  Collective collective;
  std::vector<int64_t> sizes;
  std::vector<ProtocolChoice> protocols;
};

// The first option that has no meaning beside another one.
Status check_combination(const Options& options) {
  if (!options.protocol.empty() && !options.algo.empty())
    return wrong_usage("--algo: with --protocol, that one names the programs (ring=LL128)");
  if (options.is_limit_wanted && !options.protocol.empty())
    return wrong_usage("--protocol has no meaning with --crossover-ranks");
  if (options.is_limit_wanted && !options.plot.empty())
    return wrong_usage("--plot has no meaning with --crossover-ranks");
  return Status::ok();
}

Result<Inputs> read(const Options& options) {
  const Result<LinkChoice> link = choose_link(options.link);
  if (!link.is_ok()) return link.status();
  const auto collective = find_collective(options.collective);
  if (!collective)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("--op \"{}\" is unknown; all_reduce, all_gather, broadcast, "
                              "reduce_scatter, reduce, gather, scatter and all_to_all are known",
                              options.collective));
  if (options.rank_count < 2 || options.rank_count > kRanksMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("--ranks {}: allowed are 2 to {}", options.rank_count, kRanksMax));
  MCCL_RETURN_IF_ERROR(check_combination(options));
  std::string default_sizes = "8,64K,1M,25M";
  if (options.is_limit_wanted) default_sizes = "25M,50M";
  if (!options.protocol.empty()) default_sizes = "64K,1M,4M,64M";
  const Result<std::vector<int64_t>> sizes =
      parse_byte_list(options.sizes.empty() ? default_sizes : options.sizes);
  if (!sizes.is_ok()) return sizes.status();
  std::vector<ProtocolChoice> protocols;
  if (!options.protocol.empty()) {
    Result<std::vector<ProtocolChoice>> parsed = parse_protocol_choices(options.protocol);
    if (!parsed.is_ok()) return parsed.status();
    protocols = std::move(parsed).value();
  }
  return Inputs{link.value(), *collective, sizes.value(), std::move(protocols)};
}

Json to_json(const PlanReport& report) {
  Json json = {{"verb", "plan"},
               {"collective", collective_name(report.collective)},
               {"ranks", report.rank_count},
               {"link", report.link.name},
               {"alpha_us", static_cast<double>(report.link.costs.alpha_ns) / 1e3},
               {"bytes_per_second", report.link.costs.bytes_per_second},
               {"kind", "modelled"},
               {"sizes", Json::array()},
               {"crossovers", Json::array()}};
  for (const SizeReport& size : report.sizes) {
    Json entry = {
        {"bytes", size.bytes}, {"rejection", size.rejection}, {"programs", Json::array()}};
    for (const PlanRow& row : size.rows) {
      Json program = {{"program", row.algorithm}, {"is_chosen", row.is_chosen}};
      if (row.has_cost) {
        program["time_us"] = row.time_ns / 1e3;
        program["busbw_gb_per_s"] = row.bus_bytes_per_second / 1e9;
      }
      program["verdict"] = row.verdict;
      entry["programs"].push_back(program);
    }
    json["sizes"].push_back(entry);
  }
  for (const Crossover& one : report.crossovers)
    json["crossovers"].push_back({{"from_bytes", one.begin_bytes}, {"program", one.algorithm}});
  return json;
}

void print(const PlanReport& report, Terminal& terminal) {
  std::ostream& out = terminal.out;
  const double wire = static_cast<double>(report.link.costs.bytes_per_second);
  out << fmt::format("{} among {} ranks, {} ({}); every figure is modelled\n",
                     collective_name(report.collective), report.rank_count,
                     describe_costs(report.link.costs), report.link.name);
  out << fmt::format("{:>8}   {:<34} {:>12} {:>8}  {}\n", "size", "program", "time us", "busbw",
                     "share of B");
  for (const SizeReport& size : report.sizes) {
    if (!size.rejection.empty()) out << size.rejection << "\n";
    bool is_first = true;
    for (const PlanRow& row : size.rows) {
      std::string line = fmt::format("{:>8} {} {:<34} ", is_first ? write_bytes(size.bytes) : "",
                                     row.is_chosen ? "*" : " ", row.algorithm);
      is_first = false;
      if (row.has_cost)
        line +=
            fmt::format("{:>12.1f} {:>8.3f}  {}", row.time_ns / 1e3, row.bus_bytes_per_second / 1e9,
                        draw_bar(row.bus_bytes_per_second / wire, kBarWidth));
      else
        line += row.verdict;
      while (line.back() == ' ') line.pop_back();
      out << (row.is_chosen ? terminal.bold(line) : line) << "\n";
    }
    if (!size.rows.empty()) out << fmt::format("{:>8}   {}\n", "", size.rows.front().verdict);
  }
  for (const Crossover& one : report.crossovers)
    out << fmt::format("from {} bytes on: {}\n", one.begin_bytes, one.algorithm);
}

ExitCode print_limits(const Inputs& inputs, Terminal& terminal) {
  Json json = {{"verb", "plan"},
               {"link", inputs.link.name},
               {"alpha_us", static_cast<double>(inputs.link.costs.alpha_ns) / 1e3},
               {"bytes_per_second", inputs.link.costs.bytes_per_second},
               {"slice_bytes", inputs.link.slice_bytes},
               {"kind", "modelled"}};
  std::string text = fmt::format(
      "A flat ring of N ranks, {} ({}), waits for hops longer than it moves bytes from N ranks "
      "on; modelled\n{:>8} {:>18} {:>26}\n",
      describe_wire(inputs.link.costs), inputs.link.name, "size", "N = S/(alpha B)",
      fmt::format("N with slices of {}", write_bytes(inputs.link.slice_bytes)));
  for (const int64_t bytes : inputs.sizes) {
    const RingLimit limit = ring_limit(inputs.link.costs, bytes, inputs.link.slice_bytes);
    Json row = {{"bytes", bytes}};
    // JSON knows no infinity: with an alpha of zero there is no such number of ranks.
    row["ranks"] = std::isfinite(limit.rank_count) ? Json(limit.rank_count) : Json(nullptr);
    row["ranks_with_slices"] = limit.rank_count_with_slices;
    json["limits"].push_back(row);
    text += fmt::format("{:>8} {:>18} {:>26.1f}\n", write_bytes(bytes),
                        std::isfinite(limit.rank_count) ? fmt::format("{:.1f}", limit.rank_count)
                                                        : std::string("no number"),
                        limit.rank_count_with_slices);
  }
  terminal.out << (terminal.is_json ? json.dump(2) + "\n" : text);
  return ExitCode::Ok;
}

Status write_plot(const Options& options, const LinkChoice& link,
                  const std::vector<PlotCurve>& curves) {
  if (options.plot.empty()) return Status::ok();
  std::ofstream file(options.plot, std::ios::binary);
  const std::string title = fmt::format("{} among {} ranks, {} ({}); modelled", options.collective,
                                        options.rank_count, describe_wire(link.costs), link.name);
  if (file && (file << draw_times_svg(title, curves)).flush()) return Status::ok();
  return wrong_usage(options.plot + ": cannot be written");
}

std::vector<PlotCurve> plan_curves(const PlanReport& report) {
  std::vector<PlotCurve> curves;
  for (const SizeReport& size : report.sizes)
    for (const PlanRow& row : size.rows) {
      if (!row.has_cost) continue;
      auto curve = std::find_if(curves.begin(), curves.end(),
                                [&](const PlotCurve& one) { return one.name == row.algorithm; });
      if (curve == curves.end())
        curve = curves.insert(curves.end(), {.name = row.algorithm, .points = {}});
      curve->points.push_back({.bytes = size.bytes, .time_ns = row.time_ns});
    }
  return curves;
}

ExitCode run_protocols(const Options& options, const Inputs& inputs, Terminal& terminal) {
  const Result<ProtocolReport> made = make_protocol_report(
      inputs.link, inputs.collective, options.rank_count, inputs.sizes, inputs.protocols);
  if (!made.is_ok()) return report(terminal, "plan", made.status());
  const Status plotted = write_plot(options, inputs.link, protocol_curves(made.value()));
  if (!plotted.is_ok()) return report(terminal, "plan", plotted);
  terminal.out << (terminal.is_json ? write_protocol_report_json(made.value())
                                    : write_protocol_report(made.value()));
  return ExitCode::Ok;
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<Inputs> inputs = read(options);
  if (!inputs.is_ok()) return report(terminal, "plan", inputs.status());
  if (options.is_limit_wanted) return print_limits(inputs.value(), terminal);
  if (!options.protocol.empty()) return run_protocols(options, inputs.value(), terminal);
  const Result<PlanReport> made =
      make_plan_report(inputs.value().link, inputs.value().collective, options.rank_count,
                       inputs.value().sizes, options.algo);
  if (!made.is_ok()) return report(terminal, "plan", made.status());
  const Status plotted = write_plot(options, inputs.value().link, plan_curves(made.value()));
  if (!plotted.is_ok()) return report(terminal, "plan", plotted);
  if (terminal.is_json)
    terminal.out << to_json(made.value()).dump(2) << "\n";
  else
    print(made.value(), terminal);
  for (const SizeReport& size : made.value().sizes)
    if (!size.rejection.empty()) return ExitCode::No;
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("--ranks", options->rank_count, "Number of ranks, one per host (default 24)");
  app.add_option("--op", options->collective, "Collective (default all_reduce)");
  app.add_option("--sizes", options->sizes, "Sizes S (default 8,64K,1M,25M)");
  app.add_option("--algo", options->algo, "As MCCL_ALGO: programs that may be chosen");
  app.add_option("--protocol", options->protocol,
                 "By the alpha-beta model: Simple, LL or LL128, of all programs or by name "
                 "(all_pairs=LL,ring=LL128)");
  app.add_option("--plot", options->plot, "Writes the times over the sizes as an SVG picture");
  app.add_flag("--crossover-ranks", options->is_limit_wanted,
               "From how many ranks on a flat ring of each size is bound by latency");
  add_link_options(app, options->link);
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kPlanVerb = {.name = "plan",
                        .summary = "which program for which size, and what each would take",
                        .example =
                            "  mccl plan --ranks 24 --link paper --sizes 64K,25M\n"
                            "  mccl plan --link paper --crossover-ranks --sizes 25M,50M\n"
                            "  mccl plan --ranks 8 --alpha-us 2 --bandwidth 300GB/s "
                            "--protocol all_pairs=LL,ring=LL128",
                        .declare = &declare};

}  // namespace mccl
