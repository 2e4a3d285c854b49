#include "plan/protocol_report.h"

#include <gtest/gtest.h>

#include <string>

namespace mccl {
namespace {

ProtocolReport report_of(const LinkOptions& link, int rank_count, const std::string& protocols,
                         const std::vector<int64_t>& sizes) {
  return make_protocol_report(choose_link(link).value(), Collective::AllReduce, rank_count, sizes,
                              parse_protocol_choices(protocols).value())
      .value();
}

std::string lines_of(const std::string& protocols) {
  const Result<std::vector<ProtocolChoice>> choices = parse_protocol_choices(protocols);
  if (!choices.is_ok()) return choices.status().message();
  const Result<std::vector<StepLine>> lines =
      make_step_lines(choose_link({}).value().costs, Collective::AllReduce, 8, choices.value());
  if (!lines.is_ok()) return lines.status().message();
  std::string text;
  for (const StepLine& line : lines.value())
    text += line.program + " " + std::string(msccl_protocol_name(line.protocol)) + "\n";
  return text;
}

// "Use about 300 GB/s per direction per GPU and an assumed 2 microseconds per synchronised step ...
// all-pairs wins by about 5.96x at 64 KB. The lines cross near 4.2 MB, and at 64 MB the ring is
// about 1.8 times faster."
//   all-pairs: 2 * 2 us + 7/4 S / (300 GB/s * 1/2)
//   ring:     14 * 2 us + 7/4 S / (300 GB/s * 120/128)
TEST(ProtocolReport, IsTheWorkedExampleOfTheSource) {
  const ProtocolReport report = report_of({.alpha_us = 2, .bandwidth = "300GB/s"}, 8,
                                          "all_pairs=LL,ring=LL128", {65'536, 67'108'864});
  ASSERT_EQ(report.lines.size(), 2u);
  const StepLine& ring = report.lines[0];
  const StepLine& pairs = report.lines[1];
  EXPECT_EQ(ring.program, "all_reduce_ring");
  EXPECT_EQ(pairs.program, "all_reduce_all_pairs");
  EXPECT_NEAR(pairs.time_ns(65'536), 4'764.587, 0.001);
  EXPECT_NEAR(ring.time_ns(65'536), 28'407.780, 0.001);
  EXPECT_NEAR(ring.time_ns(65'536) / pairs.time_ns(65'536), 5.962, 0.0005);
  EXPECT_NEAR(pairs.time_ns(67'108'864) / ring.time_ns(67'108'864), 1.766, 0.0005);
  const std::vector<StepCrossover> crossovers = find_crossovers(report.lines);
  ASSERT_EQ(crossovers.size(), 2u);
  EXPECT_EQ(crossovers[0].index, 1u);
  EXPECT_EQ(crossovers[0].begin_bytes, 0);
  EXPECT_EQ(crossovers[1].index, 0u);
  // 24 us / (7/4 * (1/150 - 1/281.25) ns)
  EXPECT_NEAR(crossovers[1].begin_bytes, 4'408'163.27, 0.01);
  EXPECT_EQ(write_protocol_report(report),
            "all_reduce among 8 ranks, alpha 2.0 us, B 300 GB/s (lan, alpha given, B given), "
            "T = hops alpha + moved S / (B e), e by protocol; every figure is modelled\n"
            "    size   program                            protocol      time us    busbw  x "
            "fastest\n"
            "     64K * all_reduce_all_pairs               LL               4.76   24.071       "
            "1.00\n"
            "           all_reduce_ring                    LL128           28.41    4.037       "
            "5.96\n"
            "     64M * all_reduce_ring                    LL128          445.57  263.576       "
            "1.00\n"
            "           all_reduce_all_pairs               LL             786.94  149.238       "
            "1.77\n"
            "from 0 bytes on: all_reduce_all_pairs (LL)\n"
            "from 4408164 bytes on: all_reduce_ring (LL128)\n");
}

// 4 ranks, 5 us, 10 GB/s; moved is 3/2 S but 2 S for recursive doubling.
//   ring               6 * 5 us = 30 us, 1.5 / 10 GB/s         = 0.15 ns a byte
//   recursive doubling 2 * 5 us = 10 us, 2.0 / (10 GB/s * 1/2) = 0.40 ns a byte
//   all-pairs          2 * 5 us = 10 us, 1.5 / (10 GB/s * 1/2) = 0.30 ns a byte
// So all-pairs beats recursive doubling everywhere, and the ring all-pairs from 20 us / 0.15 ns on.
TEST(ProtocolReport, IsRightForASecondSetOfFigures) {
  const ProtocolReport report =
      report_of({.alpha_us = 5, .bandwidth = "10GB/s"}, 4,
                "ring=Simple,recursive_doubling=LL,all_pairs=LL", {1'000'000});
  ASSERT_EQ(report.lines.size(), 3u);
  EXPECT_EQ(report.lines[0].time_ns(1'000'000), 180'000);
  EXPECT_EQ(report.lines[1].program, "all_reduce_recursive_doubling");
  EXPECT_NEAR(report.lines[1].time_ns(1'000'000), 410'000, 1e-6);
  EXPECT_NEAR(report.lines[2].time_ns(1'000'000), 310'000, 1e-6);
  EXPECT_EQ(fastest_line(report, 1'000'000), 0u);
  EXPECT_EQ(fastest_line(report, 100'000), 2u);
  const std::vector<StepCrossover> crossovers = find_crossovers(report.lines);
  ASSERT_EQ(crossovers.size(), 2u);
  EXPECT_EQ(crossovers[0].index, 2u);
  EXPECT_EQ(crossovers[1].index, 0u);
  EXPECT_NEAR(crossovers[1].begin_bytes, 133'333.33, 0.01);
}

TEST(ProtocolReport, TellsEachCrossoverOfThree) {
  const std::vector<StepLine> lines = {{.program = "steep", .fixed_ns = 1, .ns_per_byte = 4},
                                       {.program = "flat", .fixed_ns = 31, .ns_per_byte = 1},
                                       {.program = "middle", .fixed_ns = 11, .ns_per_byte = 2},
                                       {.program = "late", .fixed_ns = 40, .ns_per_byte = 1}};
  const std::vector<StepCrossover> crossovers = find_crossovers(lines);
  ASSERT_EQ(crossovers.size(), 3u);
  EXPECT_EQ(crossovers[0].index, 0u);
  EXPECT_EQ(crossovers[1].index, 2u);
  EXPECT_EQ(crossovers[1].begin_bytes, 5);
  EXPECT_EQ(crossovers[2].index, 1u);
  EXPECT_EQ(crossovers[2].begin_bytes, 20);
}

TEST(ProtocolReport, WithoutANameMeansAllOthers) {
  EXPECT_EQ(lines_of("ring=LL128,all_pairs=LL"),
            "all_reduce_ring LL128\nall_reduce_all_pairs LL\n");
  EXPECT_EQ(lines_of("all_pairs=LL"), "all_reduce_all_pairs LL\n");
  const std::string all = lines_of("Simple,all_pairs=LL");
  EXPECT_NE(all.find("all_reduce_ring Simple\n"), std::string::npos);
  EXPECT_NE(all.find("all_reduce_recursive_doubling Simple\n"), std::string::npos);
  EXPECT_NE(all.find("all_reduce_all_pairs LL\n"), std::string::npos);
}

TEST(ProtocolReport, RefusesWhatIsNoProtocolOrProgram) {
  EXPECT_EQ(lines_of("LL64"),
            "--protocol \"LL64\": allowed are Simple, LL and LL128, for all programs or for one, "
            "as in \"all_pairs=LL,ring=LL128\"");
  EXPECT_EQ(lines_of("=LL"),
            "--protocol \"=LL\": allowed are Simple, LL and LL128, for all programs or for one, as "
            "in \"all_pairs=LL,ring=LL128\"");
  EXPECT_EQ(lines_of("LL,"),
            "--protocol \"\": allowed are Simple, LL and LL128, for all programs or for one, as in "
            "\"all_pairs=LL,ring=LL128\"");
  EXPECT_EQ(lines_of("LL,Simple"), "--protocol names all programs twice");
  EXPECT_EQ(lines_of("ring=LL,ring=Simple"), "--protocol names ring twice");
  EXPECT_EQ(lines_of("rink=LL").substr(0, 50),
            "--protocol: \"rink\" is no program of all_reduce; th");
}

TEST(ProtocolReport, LeavesTheChoiceOfEqualsToTheEarlierOne) {
  // 2 ranks: ring and all-pairs both take 2 hops and move S.
  const ProtocolReport report = report_of({}, 2, "ring=LL,all_pairs=LL", {0, 1024});
  EXPECT_EQ(fastest_line(report, 0), 0u);
  EXPECT_EQ(find_crossovers(report.lines).size(), 1u);
}

}  // namespace
}  // namespace mccl
