#include "fit/fit_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "fit/ring_fit.h"
#include "verb/link_options.h"

namespace mccl {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> files;
  std::optional<int> rank_count;
  std::string form = "both";
  std::string slice = "64K";
  std::string bytes_min = "0";
  std::vector<std::string> predictions;
};

struct Prediction {
  int rank_count;
  int64_t bytes;
};

// What rows cover: a prediction beyond it is extrapolated.
struct Range {
  int ranks_min = 0, ranks_max = 0;
  int64_t bytes_min = 0, bytes_max = 0;

  FigureKind kind_of(const Prediction& at) const {
    const bool is_inside = at.rank_count >= ranks_min && at.rank_count <= ranks_max &&
                           at.bytes >= bytes_min && at.bytes <= bytes_max;
    return is_inside ? FigureKind::Modelled : FigureKind::Extrapolated;
  }
};

Range range_of(const std::vector<PerfRow>& rows) {
  const auto [ranks_min, ranks_max] = std::minmax_element(
      rows.begin(), rows.end(),
      [](const PerfRow& left, const PerfRow& right) { return left.rank_count < right.rank_count; });
  const auto [bytes_min, bytes_max] = std::minmax_element(
      rows.begin(), rows.end(),
      [](const PerfRow& left, const PerfRow& right) { return left.bytes < right.bytes; });
  return {ranks_min->rank_count, ranks_max->rank_count, bytes_min->bytes, bytes_max->bytes};
}

// "70x25M".
Result<Prediction> parse_prediction(std::string_view text) {
  int rank_count = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, rank_count);
  if (error != std::errc() || stop == end || *stop != 'x' || rank_count < 2)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("--predict \"{}\" is not RANKSxSIZE, such as 70x25M, of at least 2 "
                              "ranks",
                              text));
  const Result<int64_t> bytes =
      parse_bytes(std::string_view(stop + 1, static_cast<size_t>(end - stop - 1)));
  if (!bytes.is_ok()) return bytes.status();
  return Prediction{rank_count, bytes.value()};
}

struct Measured {
  std::vector<PerfRow> rows;
  std::vector<Prediction> predictions;
  int64_t slice_bytes = 0;
};

Result<Measured> read(const Options& options) {
  Measured measured;
  const Result<int64_t> slice = parse_bytes(options.slice);
  if (!slice.is_ok()) return slice.status();
  if (slice.value() == 0)
    return Status(StatusCode::InvalidArgument, "--slice 0: at least one byte");
  measured.slice_bytes = slice.value();
  const Result<int64_t> bytes_min = parse_bytes(options.bytes_min);
  if (!bytes_min.is_ok()) return bytes_min.status();
  for (const std::string& text : options.predictions) {
    const Result<Prediction> one = parse_prediction(text);
    if (!one.is_ok()) return one.status();
    measured.predictions.push_back(one.value());
  }
  for (const std::string& name : options.files) {
    const Result<std::string> text = read_whole_file(name, &std::cin);
    if (!text.is_ok()) return text.status();
    const Result<std::vector<PerfRow>> rows =
        parse_perf_file(text.value(), name, options.rank_count.value_or(0));
    if (!rows.is_ok()) return rows.status();
    for (const PerfRow& row : rows.value())
      if (row.bytes >= bytes_min.value()) measured.rows.push_back(row);
  }
  return measured;
}

Json to_json(const RingFit& fit, const Measured& measured, const Range& range) {
  const PerfRow& worst = measured.rows[fit.worst_row];
  Json json = {{"form", ring_form_name(fit.form)},
               {"kind", "modelled"},
               {"alpha_us", fit.alpha_us},
               {"bytes_per_second", std::round(fit.bytes_per_us * 1e6)},
               {"alpha_error_us", fit.alpha_error_us},
               {"bytes_per_second_error", fit.bandwidth_error_bytes_per_us * 1e6},
               {"latency_bound_rows", fit.latency_bound_count},
               {"largest_residual", std::abs(fit.residuals[fit.worst_row])},
               {"largest_residual_at", {{"ranks", worst.rank_count}, {"bytes", worst.bytes}}}};
  for (size_t index = 0; index < measured.rows.size(); ++index) {
    const PerfRow& row = measured.rows[index];
    json["rows"].push_back({{"ranks", row.rank_count},
                            {"bytes", row.bytes},
                            {"given_us", row.time_us},
                            {"kind", figure_kind_name(row.kind)},
                            {"modelled_us", row.time_us * (1 + fit.residuals[index])},
                            {"residual", fit.residuals[index]}});
  }
  for (const Prediction& at : measured.predictions) {
    const Collective collective = measured.rows.front().collective;
    const double time_us = model_time_us(fit, collective, at.rank_count, at.bytes);
    json["predictions"].push_back(
        {{"ranks", at.rank_count},
         {"bytes", at.bytes},
         {"time_us", time_us},
         {"busbw_gb_per_s",
          bus_bytes_per_second(collective, at.rank_count, at.bytes, time_us * 1e3) / 1e9},
         {"kind", figure_kind_name(range.kind_of(at))}});
  }
  return json;
}

void print(const RingFit& fit, const Measured& measured, const Range& range, Terminal& terminal) {
  std::ostream& out = terminal.out;
  const PerfRow& worst = measured.rows[fit.worst_row];
  const std::string formula = fit.form == RingForm::Additive
                                  ? "t = M (alpha + S/(N B))"
                                  : "t = M max(alpha + slice/B, S/(N B)) + alpha";
  out << terminal.bold(fmt::format("{}: {}", ring_form_name(fit.form), formula)) << "\n";
  out << fmt::format("  alpha {:.1f} us (+- {:.1f}), B {:.4f} GB/s (+- {:.4f}), modelled\n",
                     fit.alpha_us, fit.alpha_error_us, fit.bytes_per_us / 1e3,
                     fit.bandwidth_error_bytes_per_us / 1e3);
  if (fit.form == RingForm::PerHop && fit.latency_bound_count == 0)
    out << "  no row is bound by latency, so alpha is little more than a guess: measure smaller "
           "buffers\n";
  out << fmt::format("  largest residual {:.2f} % at {} ranks, {} bytes\n",
                     100 * std::abs(fit.residuals[fit.worst_row]), worst.rank_count, worst.bytes);
  out << fmt::format("  {:>6} {:>12} {:>14} {:>14} {:>10}   given is\n", "ranks", "bytes",
                     "given us", "modelled us", "residual");
  for (size_t index = 0; index < measured.rows.size(); ++index) {
    const PerfRow& row = measured.rows[index];
    out << fmt::format("  {:>6} {:>12} {:>14.2f} {:>14.2f} {:>+9.2f}%   {}\n", row.rank_count,
                       row.bytes, row.time_us, row.time_us * (1 + fit.residuals[index]),
                       100 * fit.residuals[index], figure_kind_name(row.kind));
  }
  for (const Prediction& at : measured.predictions) {
    const Collective collective = measured.rows.front().collective;
    const double time_us = model_time_us(fit, collective, at.rank_count, at.bytes);
    out << fmt::format(
        "  {:>6} {:>12} {:>14} {:>14.2f}            busbw {:.3f} GB/s, {}\n", at.rank_count,
        at.bytes, "", time_us,
        bus_bytes_per_second(collective, at.rank_count, at.bytes, time_us * 1e3) / 1e9,
        figure_kind_name(range.kind_of(at)));
  }
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<Measured> measured = read(options);
  if (!measured.is_ok()) return report(terminal, "fit", measured.status());
  std::vector<RingFit> fits;
  for (const RingForm form : {RingForm::Additive, RingForm::PerHop}) {
    if (options.form != "both" && options.form != ring_form_name(form)) continue;
    const Result<RingFit> fit = fit_ring(form, measured.value().rows, measured.value().slice_bytes);
    if (!fit.is_ok()) return report(terminal, "fit", fit.status());
    fits.push_back(fit.value());
  }
  const Range range = range_of(measured.value().rows);
  const auto best =
      std::min_element(fits.begin(), fits.end(), [](const auto& left, const auto& right) {
        return std::abs(left.residuals[left.worst_row]) <
               std::abs(right.residuals[right.worst_row]);
      });
  if (terminal.is_json) {
    Json json = {{"verb", "fit"}, {"slice_bytes", measured.value().slice_bytes}};
    for (const RingFit& fit : fits) json["fits"].push_back(to_json(fit, measured.value(), range));
    json["best"] = ring_form_name(best->form);
    terminal.out << json.dump(2) << "\n";
    return ExitCode::Ok;
  }
  for (const RingFit& fit : fits) print(fit, measured.value(), range, terminal);
  terminal.out << fmt::format(
      "closest: {}. To plan with it: mccl plan --alpha-us {:.1f} "
      "--bandwidth {:.4f}GB/s\n",
      ring_form_name(best->form), best->alpha_us, best->bytes_per_us / 1e3);
  return ExitCode::Ok;
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("FILE", options->files,
                 "Measured times: nccl-tests' output or JSON, a table with column names, - for "
                 "standard input")
      ->required();
  app.add_option("--ranks", options->rank_count, "Ranks, for files that do not say");
  app.add_option("--form", options->form, "additive, per_hop or both (default)")
      ->check(CLI::IsMember({"additive", "per_hop", "both"}));
  app.add_option("--slice", options->slice, "Longest slice of the per-hop form (default 64K)");
  app.add_option("--min-bytes", options->bytes_min, "Leave out smaller buffers, such as 16M");
  app.add_option("--predict", options->predictions, "RANKSxSIZE: foretell, such as 100x50M");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kFitVerb = {
    .name = "fit",
    .summary = "alpha and B of a network, fitted to measured times",
    .example = "  mccl fit all_reduce_perf.txt --predict 70x25M --predict 100x50M",
    .declare = &declare};

}  // namespace mccl
