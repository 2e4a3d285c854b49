#include "perf/perf_table.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fit/perf_file.h"

namespace mccl {
namespace {

PerfOptions options_for(std::vector<std::string> algos) {
  PerfOptions options =
      read_perf_options({.collective = "all_reduce", .min_bytes = "1M", .max_bytes = "1M"}).value();
  options.algos = std::move(algos);
  return options;
}

PerfLine line_of(const std::string& algo, const std::string& program, double out_us, double in_us) {
  return {.bytes = 1'048'576,
          .count = 262'144,
          .op = ReduceOp::Sum,
          .algo = algo,
          .out_of_place = PerfFigures{.iteration_us = {out_us, out_us},
                                      .wrong = 0,
                                      .cpu_seconds = 0.001,
                                      .programs = {{program, 2, "named by MCCL_ALGO"}}},
          .in_place = PerfFigures{.iteration_us = {in_us, 2 * in_us},
                                  .wrong = 0,
                                  .cpu_seconds = 0.003,
                                  .programs = {{program, 2, "named by MCCL_ALGO"}}},
          .calls = 2};
}

// The widths that parsers of nccl-tests' output rely on: 13 fields, busbw the 6th from the end.
TEST(PerfTable, HasTheColumnsOfNcclTests) {
  const PerfOptions options = options_for({""});
  EXPECT_EQ(
      write_perf_head(options, {{0, 41, "h", "CPU"}, {1, 4242, "h", "CPU"}}),
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 1048576(bytes) warmup "
      "iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
      "#\n"
      "# mccl, 2 ranks: a call's time is the mean of all ranks; every figure is "
      "measured\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid     41 on          h device  0 [0000:00:00] CPU\n"
      "#  Rank  1 Group  0 Pid   4242 on          h device  1 [0000:00:00] CPU\n"
      "#\n"
      "#                                                              out-of-place              "
      "         in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong "
      "    time   algbw   busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)         "
      "    (us)  (GB/s)  (GB/s)         \n");
  // 1048576 bytes in 39.5 us are 26.546 GB/s; in 57.3 us 18.300.
  EXPECT_EQ(
      write_perf_line(line_of("", "all_reduce_ring", 39.5, 38.2), options, 2),
      "     1048576        262144     float     sum      -1    39.50   26.55   26.55       0  "
      "  57.30   18.30   18.30       0\n");
}

TEST(PerfTable, SaysWhatIsNotThere) {
  PerfLine line = line_of("", "all_to_all_pairwise", 39.5, 1);
  line.op.reset();
  line.in_place.reset();
  line.out_of_place->wrong = -1;
  EXPECT_EQ(
      write_perf_line(line, options_for({""}), 2),
      "     1048576        262144     float    none      -1    39.50   26.55   26.55     N/A  "
      "    N/A     N/A     N/A     N/A\n");
}

TEST(PerfTable, EndsWithWhatRan) {
  const PerfOptions options = options_for({""});
  const std::vector<PerfLine> lines = {line_of("", "all_reduce_ring", 39.5, 38.2)};
  PerfSummary summary = summarize(lines, options, 2);
  summary.average_busbw = 27;
  // 4 ms for 4 calls of 1048576 bytes.
  EXPECT_EQ(write_perf_tail(lines, summary, options, 2),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 27 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "#\n"
            "# Programs that ran (measured; CPU seconds are of all ranks, per GB of size)\n"
            "#    1048576     0.954  all_reduce_ring                           4 calls  named by "
            "MCCL_ALGO\n");
}

TEST(PerfTable, ComparesContendersRoundByRound) {
  const PerfOptions options = options_for({"ring", "all_pairs"});
  const std::vector<PerfLine> lines = {
      line_of("ring", "all_reduce_ring", 30, 20),
      line_of("all_pairs", "all_reduce_recursive_doubling", 20, 20)};
  const PerfSummary summary = summarize(lines, options, 2);
  EXPECT_EQ(summary.unserved, (std::vector<std::string>{"all_pairs"}));
  const std::string tail = write_perf_tail(lines, summary, options, 2);
  EXPECT_NE(tail.find("#    1048576  out-of-place  ring over all_pairs: median 1.500 (1.500 to "
                      "1.500, 2 rounds)\n"
                      "#    1048576  in-place      ring over all_pairs: median 1.000 (1.000 to "
                      "1.000, 2 rounds)\n"
                      "# --algo all_pairs served no call\n"),
            std::string::npos)
      << tail;
  EXPECT_TRUE(write_perf_line(lines[1], options, 2).ends_with("  all_pairs\n"));
  const auto json = nlohmann::json::parse(
      write_perf_json(lines, summary, options, {{0, 1, "h", "CPU"}, {1, 2, "h", "CPU"}}));
  EXPECT_EQ(json["kind"], "measured");
  EXPECT_EQ(json["ranks"], 2);
  EXPECT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][0]["out_of_place"]["time"], 30);
  EXPECT_EQ(json["results"][0]["in_place"]["nwrong"], 0);
  EXPECT_EQ(json["results"][1]["out_of_place"]["programs"][0]["program"],
            "all_reduce_recursive_doubling");
  EXPECT_EQ(json["ratios"][0]["out_of_place"]["median"], 1.5);
  EXPECT_EQ(json["unserved"][0], "all_pairs");
  EXPECT_EQ(json["out_of_bounds"]["count"], 0);
}

TEST(PerfTable, IsReadByFit) {
  const PerfOptions options = options_for({""});
  const std::vector<PerfLine> lines = {line_of("", "all_reduce_ring", 30, 20)};
  const std::vector<RankLine> ranks = {{0, 1, "h", "CPU"}, {1, 2, "h", "CPU"}};
  const std::vector<PerfRow> expected = {{.rank_count = 2, .bytes = 1'048'576, .time_us = 30}};
  const PerfSummary summary = summarize(lines, options, 2);
  EXPECT_EQ(parse_perf_file(write_perf_json(lines, summary, options, ranks), "x", 0).value(),
            expected);
  EXPECT_EQ(
      parse_perf_file(write_perf_head(options, ranks) + write_perf_line(lines[0], options, 2) +
                          write_perf_tail(lines, summary, options, 2),
                      "x", 0)
          .value(),
      expected);
}

TEST(PerfTable, CountsWrongElementsAndTheAverage) {
  const PerfOptions options = options_for({""});
  std::vector<PerfLine> lines = {line_of("", "all_reduce_ring", 1048.576, 524.288)};
  lines[0].out_of_place->wrong = 3;
  PerfSummary summary = summarize(lines, options, 2);
  EXPECT_EQ(summary.wrong, 3);
  // 1 GB/s, and 1048576 bytes in 786.432 us.
  EXPECT_NEAR(summary.average_busbw, (1 + 4.0 / 3) / 2, 1e-12);
  summary.least_busbw = 1.29;  // of which nine tenths are asked for
  EXPECT_TRUE(summary.is_fast_enough());
  summary.least_busbw = 1.3;
  EXPECT_FALSE(summary.is_fast_enough());
  EXPECT_EQ(write_perf_tail(lines, summary, options, 2).substr(0, 74),
            "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 1.16667 FAILED\n");
}

TEST(PerfTable, AnExclusionIsServedByAnyOther) {
  const PerfOptions options = options_for({"^ring"});
  EXPECT_TRUE(
      summarize({line_of("^ring", "all_reduce_all_pairs", 1, 1)}, options, 2).unserved.empty());
  EXPECT_EQ(summarize({line_of("^ring", "all_reduce_ring", 1, 1)}, options, 2).unserved.size(), 1u);
}

TEST(Figures, KeepTheirWidth) {
  EXPECT_EQ(write_figure(39.5, 7), "  39.50");
  EXPECT_EQ(write_figure(12345.678, 7), "12345.7");
  EXPECT_EQ(write_figure(1234567.8, 7), "1234568");
  EXPECT_EQ(write_figure(123456789.0, 7), "1.2e+08");
}

TEST(Ratios, AreOfRoundsAndTellTheirSpread) {
  const RatioSpread spread =
      spread_ratios(std::vector<double>{2, 9, 3, 8, 5}, std::vector<double>{1, 3, 2, 0, 4});
  EXPECT_EQ(spread.rounds, 4);
  EXPECT_EQ(spread.median, 1.75);
  EXPECT_EQ(spread.min, 1.25);
  EXPECT_EQ(spread.max, 3);
  EXPECT_EQ(spread_ratios({}, {}).rounds, 0);
}

TEST(Rates, AreThoseOfNcclTests) {
  const PerfFigures figures{.iteration_us = {90, 110}, .cpu_seconds = 0.5};
  const PerfRates rates = rates_of(figures, Collective::AllReduce, 4, 1'000'000, 50);
  EXPECT_EQ(rates.time_us, 100);
  EXPECT_EQ(rates.algbw, 10);
  EXPECT_EQ(rates.busbw, 15);
  EXPECT_EQ(rates.cpu_seconds_per_gb, 10);
  EXPECT_EQ(rates_of({}, Collective::AllReduce, 4, 1, 1).busbw, 0);
}

}  // namespace
}  // namespace mccl
