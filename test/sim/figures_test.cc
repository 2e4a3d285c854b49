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
  double expected_ms;
};

class Figures : public testing::TestWithParam<Figure> {};

TEST_P(Figures, AreMetWithinThreePercent) {
  const Figure& figure = GetParam();
  SimGroup group(figure.rank_count, {}, paper_fleet(figure.algorithm));
  Tensors tensors(static_cast<size_t>(figure.rank_count));
  // Connections are made on first use.
  ASSERT_GT(time_all_reduce(group, tensors, 64), 0);
  const TimeNs time_ns = time_all_reduce(group, tensors, figure.bytes);
  EXPECT_EQ(judge_sums(tensors), "");
  const double time_ms = static_cast<double>(time_ns) / static_cast<double>(kNsPerMs);
  RecordProperty("milliseconds", std::to_string(time_ms));
  EXPECT_NEAR(time_ms, figure.expected_ms, 0.03 * figure.expected_ms);
}

INSTANTIATE_TEST_SUITE_P(
    Law, Figures,
    testing::Values(Figure{"Ring24Ranks16MiB", "ring", 24, 16 * kMiB, 26.28},
                    Figure{"Ring24Ranks25MiB", "ring", 24, 25 * kMiB, 40.89},
                    Figure{"AllPairs24Ranks1MiB", "all_pairs", 24, kMiB, 2.24},
                    Figure{"AllPairs24Ranks25MiB", "all_pairs", 24, 25 * kMiB, 41.20},
                    Figure{"Ring24Ranks64MiB", "ring", 24, 64 * kMiB, 104.2}),
    [](const testing::TestParamInfo<Figure>& param) { return param.param.name; });

}  // namespace
}  // namespace mccl
