#include "tune/tune_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <span>

#include "base/config.h"
#include "perf/perf_session.h"
#include "tune/tune_report.h"

namespace mccl {
namespace {

constexpr int kCloserSizes = 25;
constexpr int kRoundsDefault = 50;
// The dense sweep: sizes 5 % apart.
constexpr double kDenseStep = 1.05;
constexpr int kSizesMax = 1000;
// So that blocks of every rank are whole cache lines.
constexpr int64_t kUnitBytes = 64;

struct Options {
  PerfWords words;
  bool is_dense = false;
  std::string window_file;
  std::string output_file;
};

struct Request {
  PerfOptions options;
  PerfSeat seat;
  size_t coarse_count = 0;
};

// Doubling from -b to -e, or 5 % apart.
std::vector<int64_t> choose_first_sizes(int64_t least, int64_t most, int64_t unit, bool is_dense) {
  const double ratio = static_cast<double>(most) / static_cast<double>(least);
  const double count = std::log(ratio) / std::log(is_dense ? kDenseStep : 2.0);
  return spread_sizes(least, most, std::min(kSizesMax, static_cast<int>(std::lround(count)) + 1),
                      unit);
}

Result<Request> read(const Options& options) {
  if (options.words.algos.size() != 2)
    return wrong_usage("--algo is needed twice: which two programs?");
  if (options.window_file.empty() && !options.output_file.empty())
    return wrong_usage("--out is where the file of --window goes: give both");
  PerfWords words = options.words;
  words.step_factor = 2;
  Result<PerfOptions> read = read_perf_options(words);
  if (!read.is_ok()) return read.status();
  Request request{.options = std::move(read).value(), .seat = {}};
  Result<PerfSeat> seat = find_perf_seat(request.options, read_launch_environment());
  if (!seat.is_ok()) return seat.status();
  request.seat = std::move(seat).value();
  const int64_t unit = kUnitBytes * request.seat.rank_count;
  const int64_t least = request.options.sizes.front();
  const Result<int64_t> most = parse_perf_bytes("-e", words.max_bytes);
  if (least < unit || most.value() < 4 * least)
    return wrong_usage(fmt::format("-b {} -e {}: -b is at least {} bytes, and -e four times that",
                                   words.min_bytes, words.max_bytes, unit));
  request.options.sizes = choose_first_sizes(least, most.value(), unit, options.is_dense);
  request.coarse_count = request.options.sizes.size();
  request.options.is_in_place_only = true;
  request.options.average = RankAverage::Max;
  return request;
}

// After the doubling sizes passes around the border; the same on every rank.
ChooseSizes steering_of(const Request& request, bool is_dense) {
  if (is_dense) return {};
  return [coarse_count = 2 * request.coarse_count,
          unit = kUnitBytes * request.seat.rank_count](const std::vector<PerfLine>& lines) {
    const std::span<const PerfLine> all(lines);
    const std::vector<RatioPoint> coarse = ratio_points(all.first(coarse_count));
    std::vector<std::vector<RatioPoint>> passes;
    size_t end = coarse_count;
    while (true) {
      const std::vector<int64_t> sizes = next_sizes(coarse, passes, kCloserSizes, unit);
      if (end == lines.size()) return sizes;
      passes.push_back(ratio_points(all.subspan(end, 2 * sizes.size())));
      end += 2 * sizes.size();
    }
  };
}

// The program that served the first contender's calls: the one, or none.
std::string served_by_first(const std::vector<PerfLine>& lines) {
  std::string served;
  for (size_t index = 0; index < lines.size(); index += 2) {
    const PerfFigures& figures =
        lines[index].in_place ? *lines[index].in_place : *lines[index].out_of_place;
    for (const ServedProgram& one : figures.programs) {
      if (!served.empty() && served != one.program) return "several";
      served = one.program;
    }
  }
  return served;
}

Status store_window(const Options& options, const TuneReport& report, const std::string& served) {
  const Result<std::string> text = read_whole_file(options.window_file, nullptr);
  if (!text.is_ok()) return text.status();
  const Result<std::string> written =
      write_window(options.window_file, text.value(), report, served);
  if (!written.is_ok()) return written.status();
  const std::string& target =
      options.output_file.empty() ? options.window_file : options.output_file;
  // Beside it and renamed: a reader finds the old file or the new one.
  const std::string beside = target + ".new";
  std::ofstream file(beside, std::ios::binary);
  if (!file || !(file << written.value()).flush())
    return wrong_usage(beside + ": cannot be written");
  file.close();
  std::error_code error;
  std::filesystem::rename(beside, target, error);
  return error ? wrong_usage(target + ": cannot be written") : Status::ok();
}

// Of contenders, wrong elements first: a window of a wrong program is none.
ExitCode conclude(const Options& options, const Request& request, const PerfOutcome& outcome,
                  Terminal& terminal) {
  const PerfSummary summary = summarize(outcome.lines, request.options, request.seat.rank_count);
  const TuneReport tuned = make_tune_report(outcome.lines, request.options, request.seat.rank_count,
                                            request.coarse_count);
  if (request.seat.is_printing())
    terminal.out << (terminal.is_json ? write_tune_json(tuned) : write_tune_report(tuned));
  if (summary.wrong > 0) {
    terminal.err << fmt::format("mccl tune: {} elements were wrong\n", summary.wrong);
    return ExitCode::TestFailed;
  }
  for (const std::string& algo : summary.unserved)
    if (request.seat.is_printing())
      terminal.err << fmt::format("mccl tune: --algo {} served no call; mccl perf says what did\n",
                                  algo);
  if (!summary.unserved.empty() || !tuned.crossover) return ExitCode::No;
  if (options.window_file.empty() || !request.seat.is_printing()) return ExitCode::Ok;
  const Status stored = store_window(options, tuned, served_by_first(outcome.lines));
  return stored.is_ok() ? ExitCode::Ok : report(terminal, "tune", stored);
}

ExitCode run(const Options& options, Terminal& terminal) {
  const Result<Request> request = read(options);
  if (!request.is_ok()) return report(terminal, "tune", request.status());
  PerfListener listener;
  if (terminal.shows_progress && request.value().seat.is_printing())
    listener.add_line = [&](const PerfLine& line) {
      terminal.err << fmt::format("\rmccl tune: {:>12} bytes", line.bytes) << std::flush;
    };
  const Result<PerfOutcome> outcome =
      run_perf_session(request.value().options, read_environment(), request.value().seat, listener,
                       steering_of(request.value(), options.is_dense));
  if (listener.add_line) terminal.err << "\n";
  if (!outcome.is_ok()) return report(terminal, "tune", outcome.status());
  return conclude(options, request.value(), outcome.value(), terminal);
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  PerfWords& words = options->words;
  words.min_bytes = "4K";
  words.max_bytes = "16M";
  words.iteration_count = kRoundsDefault;
  app.add_option("collective", words.collective, "all_reduce, all_gather, ...")->required();
  app.add_option("--algo", words.algos, "Twice: the two programs, as MCCL_ALGO names them")
      ->delimiter('\0')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1);
  app.add_option("--ranks", words.rank_count, "Processes on this machine (default 2)");
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size (default 4K)");
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size (default 16M)");
  app.add_option("-n,--iters", words.iteration_count, "Rounds of a size (default 50)");
  app.add_option("-w,--warmup_iters", words.warmup_count, "Calls before (default 1)");
  app.add_option("-o,--op", words.op, "sum (default), prod, min, max or avg");
  app.add_option("-d,--datatype", words.dtype, "float (default), half, int32, ...");
  app.add_option("-r,--root", words.root, "Of a collective that has one (default 0)");
  app.add_flag("--dense", options->is_dense, "Sizes 5 % apart instead of a closer look");
  app.add_option("--window", options->window_file,
                 "XML file of the first program: gets the window in which that is the faster one");
  app.add_option("--out", options->output_file, "Where it goes, instead of the same file");
  return [options](Terminal& terminal) { return run(*options, terminal); };
}

}  // namespace

const Verb kTuneVerb = {
    .name = "tune",
    .summary = "from which size on one program is faster than another, measured",
    .example =
        "  mccl tune all_reduce --ranks 4 --algo all_pairs --algo ring -b 16K -e 16M\n"
        "  mccl tune all_reduce --ranks 4 --algo mine --algo ring --window mine.xml",
    .declare = &declare};

}  // namespace mccl
