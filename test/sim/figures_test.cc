// Law L1 in figures: in virtual time, the engine takes as long as the experiments that the law came
// from. Links and slices are those of the paper's fleet: 306 us a hop, 1.238 GB/s, 64 KiB.
#include <gtest/gtest.h>

#include <string>

#include "sim/timed_all_reduce.h"

namespace mccl {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct Figure {
  std::string name;
  std::string algorithm;
  int rank_count;
  int64_t bytes;
  double expected_ms;  // per operation
  size_t operation_count = 1;
  size_t segment_bytes = 64 * 1024;
};

class Figures : public testing::TestWithParam<Figure> {};

TEST_P(Figures, AreMetWithinThreePercent) {
  const Figure& figure = GetParam();
  sim::WorldOptions world;
  world.segment_bytes_max = figure.segment_bytes;
  SimGroup group(figure.rank_count, world, paper_fleet(figure.algorithm));
  Tensors tensors(static_cast<size_t>(figure.rank_count));
  // Connections are made on first use.
  ASSERT_GT(time_all_reduce(group, tensors, 64), 0);
  const TimeNs time_ns = time_all_reduce(group, tensors, figure.bytes, figure.operation_count);
  EXPECT_EQ(judge_sums(tensors), "");
  const double time_ms =
      static_cast<double>(time_ns) /
      static_cast<double>(kNsPerMs * static_cast<TimeNs>(figure.operation_count));
  RecordProperty("milliseconds", std::to_string(time_ms));
  EXPECT_NEAR(time_ms, figure.expected_ms, 0.03 * figure.expected_ms);
}

INSTANTIATE_TEST_SUITE_P(
    Law, Figures,
    testing::Values(Figure{"Ring24Ranks16MiB", "ring", 24, 16 * kMiB, 26.28},
                    Figure{"Ring24Ranks25MiB", "ring", 24, 25 * kMiB, 40.89},
                    Figure{"Ring4Ranks16MiB", "ring", 4, 16 * kMiB, 20.63},
                    Figure{"Ring8Ranks25MiB", "ring", 8, 25 * kMiB, 37.36},
                    Figure{"Ring16Ranks25MiB", "ring", 16, 25 * kMiB, 40.01},
                    Figure{"AllPairs8Ranks64KiB", "all_pairs", 8, kMiB / 16, 0.705},
                    Figure{"AllPairs8Ranks4MiB", "all_pairs", 8, 4 * kMiB, 6.49},
                    Figure{"AllPairs24Ranks64KiB", "all_pairs", 24, kMiB / 16, 0.713},
                    Figure{"AllPairs24Ranks1MiB", "all_pairs", 24, kMiB, 2.24},
                    Figure{"AllPairs24Ranks25MiB", "all_pairs", 24, 25 * kMiB, 41.20},
                    Figure{"Ring24Ranks64MiB", "ring", 24, 64 * kMiB, 104.2},
                    // Streams are handed over one by one, and four sets of channels take turns
                    // (law L2): alone 0.713 and 15.7. Many messages share the wire, so segments are
                    // as short as packets.
                    Figure{"AllPairs24Ranks64KiBForty", "all_pairs", 24, kMiB / 16, 0.309, 40,
                           1448},
                    Figure{"Ring24Ranks1MiBEight", "ring", 24, kMiB, 15.7 / 4, 8, 1448}),
    [](const testing::TestParamInfo<Figure>& param) { return param.param.name; });

}  // namespace
}  // namespace mccl
