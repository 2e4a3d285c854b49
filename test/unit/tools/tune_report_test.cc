#include "tune/tune_report.h"

#include <gtest/gtest.h>

#include "algorithms/catalog.h"
#include "ir/xml.h"

namespace mccl {
namespace {

PerfOptions options_for(std::string first, std::string other) {
  PerfOptions options = read_perf_options({.collective = "all_reduce"}).value();
  options.algos = {std::move(first), std::move(other)};
  return options;
}

PerfLine line_of(int64_t bytes, double time_us) {
  return {.bytes = bytes, .in_place = PerfFigures{.iteration_us = {time_us, time_us}}};
}

// The first takes S microseconds per KiB, the other 4 whatever the size.
std::vector<PerfLine> lines_of(const std::vector<int64_t>& sizes) {
  std::vector<PerfLine> lines;
  for (const int64_t bytes : sizes) {
    lines.push_back(line_of(bytes, static_cast<double>(bytes) / 1024));
    lines.push_back(line_of(bytes, 4));
  }
  return lines;
}

TuneReport report_of(const std::vector<int64_t>& sizes, size_t coarse_count) {
  return make_tune_report(lines_of(sizes), options_for("all_pairs", "ring"), 2, coarse_count);
}

std::string ring_file() {
  return write_xml(find_algorithm("all_reduce_ring")->build(2).value(), XmlDialect::Msccl).value();
}

TEST(TuneReport, NamesTheBorderAndItsSides) {
  const TuneReport report = report_of({1024, 2048, 8192, 16'384}, 4);
  ASSERT_TRUE(report.crossover.has_value());
  EXPECT_NEAR(report.crossover->bytes, 4096, 0.01);
  EXPECT_EQ(write_tune_report(report),
            "all_reduce among 2 ranks, in place, all_pairs against ring, call by call in turns; "
            "every figure is measured\n"
            "       bytes     first us     other us    ratio  min to max\n"
            "        1024          1.0          4.0    0.250  0.250 to 0.250\n"
            "        2048          2.0          4.0    0.500  0.500 to 0.500\n"
            "        8192          8.0          4.0    2.000  2.000 to 2.000\n"
            "       16384         16.0          4.0    4.000  4.000 to 4.000\n"
            "all_pairs below 4096 bytes, ring from there on (measured, between 2048 and 8192)\n");
}

TEST(TuneReport, SeeksTheBorderAmongTheCloserSizesAlone) {
  std::vector<PerfLine> lines = lines_of({1024, 2048, 8192, 16'384, 3072, 3328, 3584, 4608, 5120});
  // The first look was unlucky: the first program seemed four times as slow.
  for (size_t index = 0; index < 8; index += 2)
    lines[index].in_place->iteration_us = {static_cast<double>(lines[index].bytes) / 256};
  const TuneReport report = make_tune_report(lines, options_for("all_pairs", "ring"), 2, 4);
  EXPECT_NEAR(report.crossover->bytes, 4096, 0.01);
  EXPECT_EQ(report.crossover->below_bytes, 3584);
  EXPECT_EQ(report.crossover->above_bytes, 4608);
  ASSERT_EQ(report.points.size(), 9u);
  EXPECT_EQ(report.points[2].bytes, 3072);
}

TEST(TuneReport, SaysWhoIsFasterThroughout) {
  EXPECT_TRUE(write_tune_report(report_of({8192, 16'384}, 2))
                  .ends_with("no crossover: ring is the faster one from 8192 to 16384 bytes "
                             "(measured)\n"));
  EXPECT_TRUE(write_tune_report(report_of({512, 1024}, 2))
                  .ends_with("no crossover: all_pairs is the faster one from 512 to 1024 bytes "
                             "(measured)\n"));
}

TEST(TuneWindow, IsWrittenIntoTheFileOfTheFirst) {
  TuneReport report = report_of({1024, 2048, 8192, 16'384}, 4);
  const std::string written =
      write_window("ring.xml", ring_file(), report, "all_reduce_ring").value();
  EXPECT_EQ(read_xml(written).use.begin_bytes, 0);
  EXPECT_EQ(read_xml(written).use.end_bytes, 4096);
  report.crossover->is_first_small = false;
  const XmlReadResult large =
      read_xml(write_window("ring.xml", ring_file(), report, "all_reduce_ring").value());
  EXPECT_EQ(large.use.begin_bytes, 4096);
  EXPECT_EQ(large.use.end_bytes, ProgramUse::kEndless);
  EXPECT_EQ(large.dialect, XmlDialect::Msccl);
  EXPECT_EQ(large.program.name, "all_reduce_ring");
}

TEST(TuneWindow, IsRefusedForAFileThatWasNotMeasured) {
  TuneReport report = report_of({1024, 2048, 8192, 16'384}, 4);
  EXPECT_EQ(write_window("ring.xml", ring_file(), report, "mine").status().message(),
            "ring.xml is the program all_reduce_ring, and the calls of --algo all_pairs were "
            "served by mine");
  report.rank_count = 4;
  EXPECT_EQ(write_window("ring.xml", ring_file(), report, "all_reduce_ring").status().message(),
            "ring.xml is a program of all_reduce among 2 ranks, and measured was all_reduce among "
            "4");
  EXPECT_EQ(write_window("x.xml", "<algo", report, "x").status().code(),
            StatusCode::InvalidArgument);
}

}  // namespace
}  // namespace mccl
