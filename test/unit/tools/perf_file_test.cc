#include "fit/perf_file.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

using Rows = std::vector<PerfRow>;

TEST(PerfFile, ReadsWhatNcclTestsPrint) {
  const Rows rows =
      parse_perf_file(
          "# Collective test starting: all_gather_perf\n"
          "# Using devices\n"
          "#  Rank  0 Group  0 Pid 4 on a device  0 [0000:01:00] X\n"
          "#  Rank  1 Group  0 Pid 4 on b device  1 [0000:02:00] X\n"
          "#\n"
          "#       size         count      type   redop    root     time   algbw\n"
          "           0             0     float     sum      -1     0.50    0.00    0.00 "
          "      0     0.50    0.00    0.00       0\n"
          "     1048576        262144     float     sum      -1    39.50   26.55   26.55 "
          "      0    38.20   27.45   27.45       0\n"
          "# Avg bus bandwidth    : 27\n",
          "perf.txt", 0)
          .value();
  EXPECT_EQ(rows, (Rows{{Collective::AllGather, 2, 1048576, 39.5}}));
}

TEST(PerfFile, ReadsATableAndDerivesTimes) {
  // 2 * 3 / 4 * 1e6 bytes / 1.5e9 bytes per second.
  const Rows rows = parse_perf_file("ranks,size,busbw,note\n4,1000000,1.5,a\n", "t.csv", 0).value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].time_us, 1000);
  EXPECT_EQ(parse_perf_file("size time\n64 10.5\n", "t", 3).value(),
            (Rows{{Collective::AllReduce, 3, 64, 10.5}}));
}

TEST(PerfFile, ReadsJsonOfTheVerbsAndOfNcclTests) {
  EXPECT_EQ(parse_perf_file(R"({"collective": "reduce_scatter", "ranks": 4,
              "rows": [{"bytes": 64, "time_us": 2.5}, {"ranks": 8, "bytes": 64, "time_us": 3}]})",
                            "a.json", 0)
                .value(),
            (Rows{{Collective::ReduceScatter, 4, 64, 2.5}, {Collective::ReduceScatter, 8, 64, 3}}));
  EXPECT_EQ(parse_perf_file(R"({"config": {"devices": [{}, {}, {}]},
              "results": [{"size": 64, "out_of_place": {"time": 7.5}}]})",
                            "b.json", 0)
                .value(),
            (Rows{{Collective::AllReduce, 3, 64, 7.5}}));
}

TEST(PerfFile, RemembersWhatWasSimulated) {
  EXPECT_EQ(parse_perf_file(R"({"kind": "simulated", "ranks": 4,
              "rows": [{"bytes": 64, "time_us": 2.5}]})",
                            "a.json", 0)
                .value(),
            (Rows{{Collective::AllReduce, 4, 64, 2.5, FigureKind::Simulated}}));
}

TEST(PerfFile, ListsAllFaultsWithTheirLines) {
  EXPECT_EQ(parse_perf_file("size time\n64\n64 fast\n128 5\n", "t", 0).status().message(),
            "t:2: 1 fields under 2 names\n"
            "t:3: time \"fast\" is not a number that can be\n"
            "t:4: does not say how many ranks measured it; give --ranks");
  EXPECT_EQ(parse_perf_file("64 5\n", "t", 2).status().message(),
            "t:1: 2 fields; a row of nccl-tests has 12 or more, and a table of other columns needs "
            "a line with their names");
  EXPECT_EQ(parse_perf_file("# nothing\n", "t", 2).status().message(),
            "t: holds no row with a size and a time");
  EXPECT_EQ(parse_perf_file("{\"rows\": 3", "t", 2).status().message(),
            "t: begins like JSON and is not");
  EXPECT_EQ(parse_perf_file("hello\nworld\n", "t", 2).status().message(),
            "t:1: is no line of nccl-tests and names neither size and time nor size and busbw; "
            "known columns are ranks, size, time and busbw");
}

}  // namespace
}  // namespace mccl
