#include "tune/crossover.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/prng.h"

namespace mccl {
namespace {

// 100 us + S / (1 GB/s) against 400 us + S / (2 GB/s): they cross at 600,000 bytes.
double ratio_at(int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  return (100e3 + size) / (400e3 + size / 2);
}

std::vector<RatioPoint> measure(const std::vector<int64_t>& sizes, Prng& prng, double noise) {
  std::vector<RatioPoint> points;
  for (const int64_t bytes : sizes)
    points.push_back(
        {.bytes = bytes, .ratio = ratio_at(bytes) * std::exp(noise * (2 * prng.unit() - 1))});
  return points;
}

TEST(Crossovers, AreWhereTheRatioIsOne) {
  Prng prng(1);
  const auto points = measure(spread_sizes(4096, 16'777'216, 49, 64), prng, 0);
  const MeasuredCrossover crossover = find_crossover(points).value();
  EXPECT_TRUE(crossover.is_first_small);
  EXPECT_NEAR(crossover.bytes, 600'000, 12'000);
  EXPECT_LT(crossover.below_bytes, 600'000);
  EXPECT_GT(crossover.above_bytes, 600'000);
}

TEST(Crossovers, OfACoarseSweepAndACloserLookAreThoseOfADenseOne) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Prng prng(seed);
    const auto dense = measure(spread_sizes(4096, 16'777'216, 180, 64), prng, 0.05);
    auto coarse = measure(spread_sizes(4096, 16'777'216, 13, 64), prng, 0.05);
    const auto closer = measure(closer_sizes(coarse, 25, 64), prng, 0.05);
    ASSERT_FALSE(closer.empty());
    const double measured = find_crossover(closer).value().bytes;
    EXPECT_NEAR(measured / find_crossover(dense).value().bytes, 1, 0.1) << seed;
  }
}

// The more the passes scatter, the more of them are made; all of them together are near.
TEST(Crossovers, OfPassesUntilTheyAgree) {
  for (const auto& [noise, least, most] :
       {std::tuple{0.0, 3, 3}, std::tuple{0.05, 3, 8}, std::tuple{0.3, 3, 8}}) {
    Prng prng(7);
    const auto coarse = measure(spread_sizes(4096, 16'777'216, 13, 64), prng, noise);
    std::vector<std::vector<RatioPoint>> passes;
    std::vector<RatioPoint> all;
    for (std::vector<int64_t> sizes; !(sizes = next_sizes(coarse, passes, 25, 64)).empty();) {
      passes.push_back(measure(sizes, prng, noise));
      all.insert(all.end(), passes.back().begin(), passes.back().end());
    }
    EXPECT_GE(passes.size(), static_cast<size_t>(least)) << noise;
    EXPECT_LE(passes.size(), static_cast<size_t>(most)) << noise;
    std::sort(all.begin(), all.end(), [](const RatioPoint& left, const RatioPoint& right) {
      return left.bytes < right.bytes;
    });
    EXPECT_NEAR(find_crossover(all).value().bytes / 600e3, 1, 0.02 + noise / 2) << noise;
  }
}

TEST(Crossovers, DoNotMoveForAFewPointsFarOff) {
  Prng prng(1);
  auto points = measure(spread_sizes(4096, 16'777'216, 49, 64), prng, 0);
  points[3].ratio = 8;     // an outlier among the sizes where the first is faster
  points[45].ratio = 0.1;  // and one where it is not
  EXPECT_NEAR(find_crossover(points).value().bytes, 600'000, 12'000);
}

TEST(Crossovers, TellWhichSideIsWhose) {
  const std::vector<RatioPoint> points = {{100, 2}, {200, 1.5}, {400, 0.5}, {800, 0.25}};
  EXPECT_FALSE(find_crossover(points).value().is_first_small);
  EXPECT_EQ(find_split(points).below, 2u);
  EXPECT_EQ(closer_sizes(points, 3, 1), (std::vector<int64_t>{100, 283, 800}));
}

TEST(Crossovers, AreNoneWhenOneIsFasterThroughout) {
  EXPECT_EQ(find_crossover(std::vector<RatioPoint>{{1, 2}, {2, 3}, {4, 2}}), std::nullopt);
  EXPECT_EQ(find_crossover(std::vector<RatioPoint>{{1, 0.5}, {2, 0.3}}), std::nullopt);
  EXPECT_EQ(find_crossover({}), std::nullopt);
  EXPECT_TRUE(closer_sizes(std::vector<RatioPoint>{{1, 2}, {2, 3}}, 3, 1).empty());
}

TEST(SpreadSizes, AreEquallyFarApartAndWhole) {
  EXPECT_EQ(spread_sizes(64, 1024, 5, 64), (std::vector<int64_t>{64, 128, 256, 512, 1024}));
  EXPECT_EQ(spread_sizes(64, 128, 9, 64), (std::vector<int64_t>{64, 128}));
  EXPECT_EQ(spread_sizes(1000, 1000, 1, 8), (std::vector<int64_t>{1000}));
}

}  // namespace
}  // namespace mccl
