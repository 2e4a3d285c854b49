#include "perf/perf_verb.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <fstream>
#include <memory>
#include <ostream>

#include "base/config.h"
#include "perf/perf_options.h"
#include "perf/perf_session.h"
#include "perf/perf_table.h"

namespace mccl {
namespace {

// Flags of nccl-tests that have no meaning without a GPU, or none here.
constexpr std::array kIdleFlags = {
    "-p,--parallel_init",    "-z,--blocking",       "-y,--stream_null",
    "-G,--cudagraph",        "-C,--report_cputime", "-S,--report_timestamps",
    "-R,--local_register",   "-x,--cta_policy",     "-D,--device_implementation",
    "-V,--device_cta_count", "-M,--memory",         "-u,--unalign",
    "-I,--per_iter_timing",  "-K,--per_iter_skip",
};

struct Request {
  PerfOptions options;
  Environment settings;
  std::optional<double> least_busbw;  // NCCL_TESTS_MIN_BW
  std::string output_file;            // -J
};

// The variables of nccl-tests.
Status read_test_variables(Request& request) {
  constexpr std::string_view kLeast = "NCCL_TESTS_MIN_BW";
  for (const auto& [name, value] : request.settings) {
    if (!name.starts_with("NCCL_TESTS_")) continue;
    if (name != kLeast) {
      request.options.notices.push_back(name + ": read by nccl-tests, without effect here");
      continue;
    }
    double least = 0;
    const char* const end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, least);
    if (error != std::errc() || stop != end || !(least >= 0))
      return wrong_usage(fmt::format("{}={}: allowed is a number of GB/s", kLeast, value));
    request.least_busbw = least;
  }
  return Status::ok();
}

// Prints as it goes, unless one JSON object is wanted.
PerfListener listener_of(const Request& request, Terminal& terminal, int& rank_count) {
  if (terminal.is_json) return {};
  return {.begin =
              [&](const std::vector<RankLine>& ranks) {
                rank_count = static_cast<int>(ranks.size());
                terminal.out << write_perf_head(request.options, ranks) << std::flush;
              },
          .add_line =
              [&](const PerfLine& line) {
                terminal.out << write_perf_line(line, request.options, rank_count) << std::flush;
              }};
}

ExitCode verdict_of(const PerfSummary& summary) {
  if (summary.wrong > 0 || !summary.is_fast_enough()) return ExitCode::TestFailed;
  return summary.unserved.empty() ? ExitCode::Ok : ExitCode::No;
}

// What rank 0 prints last.
ExitCode conclude(const Request& request, const PerfOutcome& outcome, Terminal& terminal,
                  bool is_printing) {
  const auto rank_count = static_cast<int>(outcome.ranks.size());
  PerfSummary summary = summarize(outcome.lines, request.options, rank_count);
  summary.least_busbw = request.least_busbw;
  if (!is_printing) return verdict_of(summary);
  const std::string json = write_perf_json(outcome.lines, summary, request.options, outcome.ranks);
  terminal.out << (terminal.is_json
                       ? json
                       : write_perf_tail(outcome.lines, summary, request.options, rank_count));
  if (!request.output_file.empty()) {
    std::ofstream file(request.output_file, std::ios::binary);
    if (!file || !(file << json).flush())
      return report(terminal, "perf", wrong_usage(request.output_file + ": cannot be written"));
  }
  for (const std::string& algo : summary.unserved)
    terminal.err << fmt::format(
        "mccl perf: --algo {} served no call; the lines above say what did, and why\n", algo);
  return verdict_of(summary);
}

ExitCode run(const PerfWords& words, const std::string& output_file, Terminal& terminal) {
  Result<PerfOptions> options = read_perf_options(words);
  if (!options.is_ok()) return report(terminal, "perf", options.status());
  Request request{.options = std::move(options).value(),
                  .settings = read_environment(),
                  .least_busbw = std::nullopt,
                  .output_file = output_file};
  const Status read = read_test_variables(request);
  if (!read.is_ok()) return report(terminal, "perf", read);
  const Result<PerfSeat> seat = find_perf_seat(request.options, read_launch_environment());
  if (!seat.is_ok()) return report(terminal, "perf", seat.status());
  if (seat.value().is_printing())
    for (const std::string& notice : request.options.notices)
      terminal.err << "mccl perf: " << notice << "\n";
  int rank_count = seat.value().rank_count;
  const PerfListener listener =
      seat.value().is_printing() ? listener_of(request, terminal, rank_count) : PerfListener{};
  const Result<PerfOutcome> outcome =
      run_perf_session(request.options, request.settings, seat.value(), listener, {});
  if (!outcome.is_ok()) return report(terminal, "perf", outcome.status());
  return conclude(request, outcome.value(), terminal, seat.value().is_printing());
}

struct Options {
  PerfWords words;
  std::string output_file;
};

void add_idle_flags(CLI::App& app, Options& options) {
  for (const char* const flag : kIdleFlags) {
    const std::string name = std::string(flag).substr(0, 2);
    app.add_option_function<std::string>(
           flag,
           [&options, name](const std::string& value) {
             options.words.idle_flags.push_back(name + " " + value);
           },
           "Of nccl-tests, without effect here")
        ->group("Accepted without effect");
  }
}

VerbRun declare(CLI::App& app) {
  auto options = std::make_shared<Options>();
  PerfWords& words = options->words;
  app.add_option("collective", words.collective, "all_reduce, all_gather, ... or all_reduce_perf")
      ->required();
  app.add_option("--ranks", words.rank_count, "Processes on this machine (default 2)");
  app.add_option("--algo", words.algos,
                 "As MCCL_ALGO; several times: they take turns, call by call, and are compared")
      ->delimiter('\0')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1);
  app.add_option("-b,--minbytes", words.min_bytes, "Smallest size (default 32M)");
  app.add_option("-e,--maxbytes", words.max_bytes, "Largest size (default 32M)");
  app.add_option("-i,--stepbytes", words.step_bytes, "Step of sizes (default 1M)");
  app.add_option("-f,--stepfactor", words.step_factor, "Factor of sizes, instead of a step");
  app.add_option("-n,--iters", words.iteration_count, "Iterations of a size (default 20)");
  app.add_option("-m,--agg_iters", words.aggregate_count,
                 "Calls of an iteration, posted at once (default 1)");
  app.add_option("-w,--warmup_iters", words.warmup_count, "Calls before (default 1)");
  app.add_option("-N,--run_cycles", words.cycle_count, "Runs over all sizes; 0: endless");
  app.add_option("-c,--check", words.check_count, "1: every element of every result (default)");
  app.add_option("-o,--op", words.op, "sum (default), prod, min, max, avg or all");
  app.add_option("-d,--datatype", words.dtype, "float (default), half, int32, ... or all");
  app.add_option("-r,--root", words.root, "Of a collective that has one (default 0)");
  app.add_option("-a,--average", words.average,
                 "0: rank 0's times, 1: mean of the ranks (default), 2: fastest, 3: slowest");
  app.add_option("-t,--nthreads", words.thread_count, "Times -g: as --ranks");
  app.add_option("-g,--ngpus", words.device_count, "Times -t: as --ranks");
  app.add_option("-T,--timeout", words.timeout_s, "As MCCL_TIMEOUT, in seconds");
  app.add_option("-J,--output_file", options->output_file, "Also the JSON, into a file");
  add_idle_flags(app, *options);
  return
      [options](Terminal& terminal) { return run(options->words, options->output_file, terminal); };
}

}  // namespace

const Verb kPerfVerb = {
    .name = "perf",
    .summary = "times and bandwidths of a collective, with the flags of nccl-tests",
    .example =
        "  mccl perf all_reduce --ranks 4 -b 64K -e 64M -f 2 -n 20 -c 1\n"
        "  mccl perf all_reduce --ranks 4 -b 64K -e 4M -f 4 --algo all_pairs --algo ring\n"
        "  torchrun --nproc-per-node 2 --no-python mccl perf all_gather -b 1M -e 1M",
    .declare = &declare};

}  // namespace mccl
