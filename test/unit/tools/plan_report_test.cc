#include "plan/plan_report.h"

#include <gtest/gtest.h>

#include <limits>

namespace mccl {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

LinkChoice link(const LinkOptions& options) {
  return choose_link(options).value();
}

TEST(RingLimits, AreThoseOfThePaper) {
  // "a standard 25 MB bucket stays bandwidth-bound up to roughly 70 Macs", 50 MB past 128.
  const LinkCosts costs = link({.link = "paper"}).costs;
  EXPECT_NEAR(ring_limit(costs, 25 * kMiB, 65536).rank_count, 69.2, 0.05);
  EXPECT_NEAR(ring_limit(costs, 50 * kMiB, 65536).rank_count, 138.4, 0.05);
  // 26214400 / (378828 + 65536)
  EXPECT_NEAR(ring_limit(costs, 25 * kMiB, 65536).rank_count_with_slices, 58.99, 0.005);
}

TEST(PlanReport, HasTheModelsTimesAndTheChoice) {
  const PlanReport report =
      make_plan_report(link({.link = "paper"}), Collective::AllReduce, 24, {65536, 25 * kMiB}, "")
          .value();
  ASSERT_EQ(report.sizes.size(), 2u);
  EXPECT_EQ(report.sizes[0].rows[0].algorithm, "all_reduce_recursive_doubling");
  const PlanRow& ring = report.sizes[1].rows[0];
  EXPECT_EQ(ring.algorithm, "all_reduce_ring");
  EXPECT_TRUE(ring.is_chosen);
  // 46 hops of 1,092,267 bytes at 1.238 GB/s, 882,284 ns each, and 306 us.
  EXPECT_EQ(ring.time_ns, 40'891'064);
  EXPECT_NEAR(ring.bus_bytes_per_second, 1.2287e9, 1e5);
  EXPECT_EQ(report.crossovers, (std::vector<Crossover>{{0, "all_reduce_recursive_doubling"},
                                                       {262'145, "all_reduce_ring"}}));
}

TEST(Links, RefuseFiguresThatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(choose_link({.alpha_us = -1}).status().message(),
            "--alpha-us -1: allowed are 0 to 1000000000");
  EXPECT_EQ(choose_link({.alpha_us = nan}).status().message(),
            "--alpha-us nan: allowed are 0 to 1000000000");
  EXPECT_EQ(choose_link({.alpha_us = std::numeric_limits<double>::infinity()}).status().message(),
            "--alpha-us inf: allowed are 0 to 1000000000");
  EXPECT_EQ(link({.alpha_us = 1e9}).costs.alpha_ns, 1'000'000'000'000);
  EXPECT_EQ(choose_link({.gbps = 0}).status().code(), StatusCode::InvalidArgument);
}

TEST(Links, AreNamedOrGivenInUnits) {
  EXPECT_EQ(link({.alpha_us = 306, .gbps = 9.904}).costs.bytes_per_second, 1'238'000'000);
  EXPECT_EQ(link({.bandwidth = "1.238GB/s"}).costs.bytes_per_second, 1'238'000'000);
  EXPECT_EQ(link({.bandwidth = "941Mb/s"}).costs.bytes_per_second, 117'625'000);
  EXPECT_EQ(link({.alpha_us = 306}).costs.alpha_high_ns, 306'000);
  EXPECT_EQ(choose_link({.link = "wan"}).status().message(),
            "--link \"wan\" is unknown: paper, lan and loopback are known");
  EXPECT_EQ(choose_link({.bandwidth = "10G"}).status().message(),
            "--bandwidth \"10G\" is not a bandwidth: a number and one of GB/s, MB/s, Gb/s, Mb/s");
  EXPECT_EQ(choose_link({.gbps = 1, .bandwidth = "1GB/s"}).status().message(),
            "--gbps and --bandwidth say the same: give one of them");
}

}  // namespace
}  // namespace mccl
