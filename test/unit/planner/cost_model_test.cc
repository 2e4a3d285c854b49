#include "planner/cost_model.h"

#include <gtest/gtest.h>

#include "literal_algorithms.h"

namespace mccl {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kSliceBytes = 64 * kKiB;

// The fleet of the published table: 306 us, 1.2376 GB/s, 5 us per message, adding is free.
constexpr LinkCosts kFleet = {.alpha_ns = 306'000,
                              .alpha_high_ns = 306'000,
                              .bytes_per_second = 1'237'600'000,
                              .gamma_bytes_per_second = 0,
                              .overhead_ns = 5'000};

int64_t ring_us(int rank_count, int64_t bytes) {
  return estimate_cost(literal::ring_cost(rank_count), kFleet, bytes, kSliceBytes).total_ns / 1000;
}
int64_t pairs_us(int rank_count, int64_t bytes) {
  return estimate_cost(literal::all_pairs_cost(rank_count), kFleet, bytes, kSliceBytes).total_ns /
         1000;
}
int64_t doubling_us(int rank_count, int64_t bytes) {
  return estimate_cost(literal::doubling_cost(rank_count), kFleet, bytes, 4 * kSliceBytes)
             .total_ns /
         1000;
}

TEST(CostModel, GivesThePublishedTimesOfTheRing) {
  EXPECT_EQ(ring_us(24, 25 * kMiB), 40'904);
  EXPECT_EQ(ring_us(4, 25 * kMiB), 32'078);
  EXPECT_EQ(ring_us(8, 25 * kMiB), 37'373);
  EXPECT_EQ(ring_us(24, kMiB), 16'005);
  EXPECT_EQ(ring_us(24, 256 * kMiB), 416'031);
  EXPECT_EQ(ring_us(24, 64 * kKiB), 14'483);
}

TEST(CostModel, GivesThePublishedTimesOfRotatedAllPairs) {
  EXPECT_EQ(pairs_us(24, kMiB), 2'235);
  EXPECT_EQ(pairs_us(24, 64 * kKiB), 842);
  EXPECT_EQ(pairs_us(8, kMiB), 2'094);
  EXPECT_EQ(pairs_us(200, kMiB), 2'602);
  EXPECT_EQ(pairs_us(24, 4 * kMiB), 7'107);
}

TEST(CostModel, GivesThePublishedTimesOfRecursiveDoubling) {
  EXPECT_EQ(doubling_us(4, kKiB), 613);
  EXPECT_EQ(doubling_us(8, 64 * kKiB), 1'076);
  EXPECT_EQ(doubling_us(24, 64 * kKiB), 2'153);
  EXPECT_EQ(doubling_us(24, 256 * kKiB), 3'106);
}

TEST(CostModel, AHopOfTheRingCostsTheSlowestOfItsThreeTerms) {
  const CostTerms long_chunks =
      estimate_cost(literal::ring_cost(24), kFleet, 25 * kMiB, kSliceBytes);
  EXPECT_EQ(to_string(long_chunks),
            "46 hops x max(latency 357916 ns, wire 882569 ns, processor 85000 ns) + 306000 ns = "
            "40904174 ns");
  EXPECT_EQ(long_chunks.slice_bytes, 64'251);  // 17 equal slices of 1,092,267 bytes
  const CostTerms short_chunks =
      estimate_cost(literal::ring_cost(24), kFleet, 24 * kKiB, kSliceBytes);
  EXPECT_EQ(short_chunks.latency_ns, 306'828);
  EXPECT_EQ(short_chunks.wire_ns, 828);
  EXPECT_EQ(short_chunks.total_ns, 46 * 306'828 + 306'000);
}

// A chain of n ranks passes every slice on: one message per rank, n - 1 hops.
AlgorithmCost chain_cost(int rank_count) {
  return {.hops = rank_count - 1,
          .messages = 1,
          .bytes_moved = {1, 1},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

TEST(CostModel, AChainTakesItsBytesOnceAndASliceForEveryFurtherHop) {
  // 2 x 64 KiB of 1.2376 GB/s are 105,909 ns; a slice takes 306,000 + 52,955.
  EXPECT_EQ(to_string(estimate_cost(chain_cost(4), kFleet, 128 * kKiB, kSliceBytes)),
            "1 hops x max(latency 358955 ns, wire 105909 ns, processor 10000 ns) + 1023910 ns = "
            "1382865 ns");
  EXPECT_EQ(to_string(estimate_cost(chain_cost(4), kFleet, 64 * kMiB, kSliceBytes)),
            "1 hops x max(latency 358955 ns, wire 54225004 ns, processor 5120000 ns) + 1023910 ns "
            "= 55248914 ns");
}

TEST(CostModel, AChainOfTwoIsOneHop) {
  EXPECT_EQ(estimate_cost(chain_cost(2), kFleet, 64 * kKiB, kSliceBytes).fill_ns, 306'000);
}

TEST(CostModel, ASlowProcessorBoundsTheRing) {
  LinkCosts link = kFleet;
  link.overhead_ns = 100'000;  // 17 slices per hop
  const CostTerms terms = estimate_cost(literal::ring_cost(24), link, 25 * kMiB, kSliceBytes);
  EXPECT_EQ(terms.processor_ns, 1'700'000);
  EXPECT_EQ(terms.total_ns, 46 * 1'700'000 + 306'000);
}

TEST(CostModel, ReductionsOfAnAdditiveProgramAreAddedAtTheirOwnRate) {
  LinkCosts link = kFleet;
  link.gamma_bytes_per_second = 10'000'000'000;
  EXPECT_EQ(to_string(estimate_cost(literal::doubling_cost(2), link, 100'000, kSliceBytes)),
            "latency 306000 ns + max(wire 80802 ns, processor 0 ns) + reduce 10000 ns = "
            "396802 ns");
}

TEST(CostModel, OneRankCostsNothing) {
  EXPECT_EQ(to_string(estimate_cost(literal::ring_cost(1), kFleet, kMiB, kSliceBytes)),
            "no messages = 0 ns");
}

TEST(CostModel, TimesBeyondSixtyThreeBitsSaturate) {
  const LinkCosts slow = {.bytes_per_second = 1};
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(estimate_cost(literal::ring_cost(4), slow, kMax, kSliceBytes).total_ns, kMax);
  EXPECT_EQ(estimate_cost(literal::doubling_cost(4), slow, kMax, kSliceBytes).total_ns, kMax);
}

TEST(CostModel, NeverFallsWhenTheCallGrows) {
  for (const auto cost : {&literal::ring_cost, &literal::all_pairs_cost, &literal::doubling_cost})
    for (int rank_count = 2; rank_count <= 33; ++rank_count) {
      int64_t before_ns = 0;
      for (int64_t bytes = 1; bytes <= 64 * kMiB; bytes *= 4) {
        const int64_t now_ns = estimate_cost(cost(rank_count), kFleet, bytes, kSliceBytes).total_ns;
        EXPECT_LE(before_ns, now_ns) << rank_count << " ranks, " << bytes << " bytes";
        before_ns = now_ns;
      }
    }
}

}  // namespace
}  // namespace mccl
