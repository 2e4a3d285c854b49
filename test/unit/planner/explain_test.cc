#include "planner/explain.h"

#include <gtest/gtest.h>

#include "literal_algorithms.h"
#include "planner/planner.h"

namespace mccl {
namespace {

using literal::kAll;

std::string explained(int rank_count, const PlannerSettings& settings, Collective collective,
                      int64_t bytes) {
  const Result<PlanTable> table =
      build_plan_table(make_topology(rank_count, rank_count), settings, kAll);
  EXPECT_TRUE(table.is_ok()) << table.status().to_string();
  return table.is_ok() ? to_string(explain(table.value(), collective, bytes, kAll)) : "";
}

TEST(Explain, SaysHowMuchSlowerTheOthersAreAndWhatWouldChooseThem) {
  EXPECT_EQ(
      explained(24, {}, Collective::AllReduce, 1 << 20),
      "all_reduce of 1048576 bytes on 24 ranks, profile lan (times are modelled, of one operation "
      "alone)\n"
      "* all_reduce_all_pairs\n"
      "    cost: latency 60000 ns + max(wire 1707537 ns, processor 138000 ns) + reduce "
      "100489 ns = 1868026 ns\n"
      "    chosen: fastest of 3 by the cost model\n"
      "  all_reduce_ring\n"
      "    cost: 46 hops x max(latency 69306 ns, wire 37121 ns, processor 5185 ns) + "
      "30000 ns = 3218076 ns\n"
      "    in a row: operations overlap, rotating over 4 channel sets\n"
      "    rejected: slower than all_reduce_all_pairs by 72.3 %\n"
      "    would do: calls of 1576960 bytes or more, or MCCL_ALGO=all_reduce_ring\n"
      "  all_reduce_recursive_doubling\n"
      "    cost: latency 180000 ns + max(wire 5345333 ns, processor 0 ns) + reduce "
      "629146 ns = 6154479 ns\n"
      "    rejected: slower than all_reduce_all_pairs by 229.5 %\n"
      "    would do: calls of less than 4096 bytes, or "
      "MCCL_ALGO=all_reduce_recursive_doubling\n");
}

TEST(Explain, NamesTheFirstRuleThatRejects) {
  EXPECT_EQ(
      explained(300, {.algo = "ring,nvls"}, Collective::AllReduce, 1 << 20),
      "all_reduce of 1048576 bytes on 300 ranks, profile lan (times are modelled, of one operation "
      "alone)\n"
      "MCCL_ALGO: nvls is not a program of this library, ignored\n"
      "* all_reduce_ring\n"
      "    cost: 598 hops x max(latency 33146 ns, wire 2971 ns, processor 3175 ns) + "
      "30000 ns = 19851308 ns\n"
      "    in a row: operations overlap, rotating over 4 channel sets\n"
      "    chosen: the only admissible program; MCCL_ALGO=ring,nvls\n"
      "  all_reduce_recursive_doubling\n"
      "    cost: latency 300000 ns + max(wire 8908888 ns, processor 0 ns) + reduce "
      "1048576 ns = 10257464 ns\n"
      "    rejected: MCCL_ALGO=ring,nvls names others\n"
      "    would do: MCCL_ALGO=ring,nvls,all_reduce_recursive_doubling\n"
      "  all_reduce_all_pairs\n"
      "    rejected: it serves at most 256 ranks, the communicator has 300\n"
      "    would do: a communicator of at most 256 ranks\n");
}

TEST(Explain, ProfilePaperExplainsItsSwitch) {
  EXPECT_EQ(
      explained(24, {.profile = CostProfile::Paper}, Collective::AllReduce, 262'144),
      "all_reduce of 262144 bytes on 24 ranks, profile paper (times are modelled, of one operation "
      "alone)\n"
      "* all_reduce_recursive_doubling\n"
      "    cost: latency 1836000 ns + max(wire 1270488 ns, processor 0 ns) + reduce 0 ns "
      "= 3106488 ns\n"
      "    chosen: profile paper: above 262144 bytes the ring, else recursive doubling\n"
      "  all_reduce_ring\n"
      "    cost: 46 hops x max(latency 314824 ns, wire 8824 ns, processor 5000 ns) + "
      "306000 ns = 14787904 ns\n"
      "    in a row: operations overlap, rotating over 4 channel sets\n"
      "    rejected: profile paper: 262144 bytes are not above the switch at 262144 "
      "bytes\n"
      "    would do: calls of 262145 bytes or more, or MCCL_ALGO=all_reduce_ring\n"
      "  all_reduce_all_pairs\n"
      "    cost: latency 612000 ns + max(wire 405851 ns, processor 230000 ns) + reduce 0 "
      "ns = 1017851 ns\n"
      "    rejected: profile paper knows recursive doubling and the ring only\n"
      "    would do: MCCL_ALGO=all_reduce_all_pairs, or another profile\n");
}

TEST(Explain, WithoutAProgramEveryCandidateHasItsReason) {
  EXPECT_EQ(
      explained(4, {.algo = "^all_gather_ring"}, Collective::AllGather, 4096),
      "all_gather of 4096 bytes on 4 ranks, profile lan (times are modelled, of one operation "
      "alone)\n"
      "no program for all_gather may run: all_gather_ring: MCCL_ALGO=^all_gather_ring "
      "excludes it (would do: take its name out of MCCL_ALGO)\n"
      "  all_gather_ring\n"
      "    cost: 3 hops x max(latency 30871 ns, wire 871 ns, processor 3000 ns) + 30000 "
      "ns = 122613 ns\n"
      "    in a row: operations overlap, rotating over 4 channel sets\n"
      "    rejected: MCCL_ALGO=^all_gather_ring excludes it\n"
      "    would do: take its name out of MCCL_ALGO\n");
}

TEST(Explain, ATableThatContradictsTheModelIsReported) {
  const std::array<const Algorithm*, 2> two = {&literal::kRing, &literal::kDoubling};
  Result<PlanTable> table = build_plan_table(make_topology(2, 1), {}, two);
  ASSERT_TRUE(table.is_ok());
  for (PlanWindow& window : table.value().collectives.at(0).windows)
    window.entry.algorithm = "all_reduce_ring";
  const Explanation explanation = explain(table.value(), Collective::AllReduce, 64, two);
  EXPECT_EQ(explanation.candidates.at(0).algorithm, "all_reduce_ring");
  EXPECT_EQ(explanation.candidates.at(1).verdict,
            "the table's window names all_reduce_ring, which the model has slower by 199.5 %");
}

TEST(Explain, PointsToTheNearestSizeThatAProgramHas) {
  const std::array<const Algorithm*, 2> two = {&literal::kRing, &literal::kDoubling};
  Result<PlanTable> table = build_plan_table(make_topology(2, 1), {.algo = "ring"}, two);
  ASSERT_TRUE(table.is_ok());
  table.value().algo.clear();
  PlanEntry ring = table.value().collectives.at(0).windows.at(0).entry;
  PlanEntry doubling = ring;
  doubling.algorithm = "all_reduce_recursive_doubling";
  table.value().collectives.at(0).windows = {
      {.begin_bytes = 0, .end_bytes = 100, .entry = doubling},
      {.begin_bytes = 100, .end_bytes = 1000, .entry = ring},
      {.begin_bytes = 1000, .end_bytes = kBytesUnlimited, .entry = doubling}};
  const auto remedy = [&](int64_t bytes) {
    return explain(table.value(), Collective::AllReduce, bytes, two).candidates.at(1).remedy;
  };
  EXPECT_EQ(remedy(150),
            "calls of less than 100 bytes, or MCCL_ALGO=all_reduce_recursive_doubling");
  EXPECT_EQ(remedy(950), "calls of 1000 bytes or more, or MCCL_ALGO=all_reduce_recursive_doubling");
}

TEST(Explain, CoversTheCatalogue) {
  const Result<PlanTable> table = build_plan_table(make_topology(4, 1), {});
  ASSERT_TRUE(table.is_ok());
  size_t all_reduce_count = 0;
  for (const Algorithm* algorithm : catalog())
    all_reduce_count += algorithm->collective == Collective::AllReduce ? 1 : 0;
  EXPECT_EQ(explain(table.value(), Collective::AllReduce, 4096).candidates.size(),
            all_reduce_count);
}

}  // namespace
}  // namespace mccl
