// What switches do to a plan: group sizes, bytes through uplinks, choices.
#include "planner/switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/explain.h"
#include "planner/planner.h"

namespace mccl {
namespace {

using testing::ElementsAre;

constexpr int64_t kMiB = int64_t{1} << 20;

// Ranks at switches of `per_switch` in their order.
Topology switched(int rank_count, int per_switch) {
  Topology topology = make_topology(rank_count, rank_count);
  for (int rank = 0; rank < rank_count; ++rank)
    topology.switch_of_rank.push_back(rank / per_switch);
  return topology;
}

PlanTable header_of(const Topology& topology, int uplink_ports) {
  PlanTable header;
  header.rank_count = topology.rank_count;
  header.uplink_ports = uplink_ports;
  header.switch_of_rank = topology.switch_of_rank;
  return header;
}

const Algorithm& two_level() {
  return *find_algorithm("all_reduce_two_level_ring");
}

std::string share(const Fraction& fraction) {
  return std::to_string(fraction.numerator) + "/" + std::to_string(fraction.denominator);
}

std::string busiest(const PlanTable& header, const ProgramChoice& choice) {
  return share(busiest_uplink(header, choice, program_cost(choice, header.rank_count)));
}

PlanTable paper_plan(const Topology& topology, int uplink_ports, const char* algo = "") {
  // The figures of the paper's fleet without the paper's rule.
  const LinkCosts costs = link_profile(CostProfile::Paper, topology).costs;
  Result<PlanTable> table = build_plan_table(
      topology,
      {.profile = CostProfile::Lan, .costs = costs, .algo = algo, .uplink_ports = uplink_ports});
  EXPECT_TRUE(table.is_ok()) << table.status().to_string();
  return table.is_ok() ? std::move(table).value() : PlanTable{};
}

std::string chosen(const PlanTable& table, int64_t bytes) {
  const Result<const PlanEntry*> entry = find_entry(table, Collective::AllReduce, bytes);
  return entry.is_ok() ? entry.value()->algorithm : entry.status().message();
}

TEST(Switches, AreNarrowOnlyWhereThereAreSeveralAndTheirPortsAreKnown) {
  EXPECT_FALSE(has_narrow_uplinks(header_of(make_topology(32, 32), 1)));
  EXPECT_FALSE(has_narrow_uplinks(header_of(switched(32, 32), 1)));
  EXPECT_FALSE(has_narrow_uplinks(header_of(switched(32, 16), 0)));
  EXPECT_TRUE(has_narrow_uplinks(header_of(switched(32, 16), 1)));
}

TEST(Switches, OfferTheGroupSizesThatFitThem) {
  EXPECT_THAT(find_group_sizes(header_of(switched(200, 16), 1), two_level()),
              ElementsAre(2, 4, 8, 16));
  EXPECT_THAT(find_group_sizes(header_of(switched(48, 24), 1), two_level()),
              ElementsAre(3, 4, 6, 8, 12, 24));  // six at most
  Topology dealt = switched(4, 2);
  dealt.switch_of_rank = {0, 1, 0, 1};
  EXPECT_THAT(find_group_sizes(header_of(dealt, 1), two_level()), ElementsAre(2));  // none fits
  EXPECT_TRUE(do_groups_straddle(header_of(dealt, 1), 2));
}

TEST(Switches, OfferSizesAroundTheRootWhereUplinksAreWide) {
  EXPECT_THAT(find_group_sizes(header_of(make_topology(200, 200), 0), two_level()),
              ElementsAre(10, 16, 20, 25, 40, 50));
  EXPECT_THAT(find_group_sizes(header_of(make_topology(16, 16), 0), two_level()),
              ElementsAre(2, 4, 5, 8));
  EXPECT_THAT(find_group_sizes(header_of(make_topology(2, 2), 0), two_level()), ElementsAre(2));
  EXPECT_THAT(find_group_sizes(header_of(make_topology(1, 1), 0), two_level()), ElementsAre(1));
}

TEST(Switches, CountWhatPassesTheBusiestUplink) {
  const PlanTable header = header_of(switched(200, 16), 1);
  // In a ring in the order of the switches one rank's stream leaves each.
  EXPECT_EQ(busiest(header, {find_algorithm("all_reduce_ring"), 0}), "398/200");
  // The owners of all shares send to the next group: as much as one rank of a ring.
  EXPECT_EQ(busiest(header, {&two_level(), 16}), "384/208");
  // 16 owners of groups of 20 leave, and one or two rings that straddle.
  EXPECT_EQ(busiest(header, {&two_level(), 20}), "1048/200");
  // Of all-pairs nothing is known: all that 16 ranks send.
  EXPECT_EQ(busiest(header, {find_algorithm("all_reduce_all_pairs"), 0}), "6368/200");
}

TEST(Switches, ARingInAnOrderThatSwitchesDoNotFollowPaysForEveryRank) {
  Topology dealt = switched(4, 2);
  dealt.switch_of_rank = {0, 1, 0, 1};
  EXPECT_EQ(busiest(header_of(dealt, 1), {find_algorithm("all_reduce_ring"), 0}), "12/4");
}

TEST(Switches, UplinksOfOnePortLeaveNeitherAllPairsNorGroupsThatStraddle) {
  const PlanTable table = paper_plan(switched(200, 16), 1);
  for (int64_t bytes = kMiB; bytes <= 1024 * kMiB; bytes *= 2) {
    const ProgramChoice choice = find_choice(chosen(table, bytes), catalog());
    ASSERT_NE(choice.algorithm, nullptr) << bytes;
    EXPECT_NE(choice.algorithm->name, "all_reduce_all_pairs") << bytes;
    EXPECT_FALSE(choice.group_size > 0 && do_groups_straddle(table, choice.group_size)) << bytes;
  }
  EXPECT_EQ(chosen(table, 25 * kMiB), "all_reduce_two_level_ring:4");
}

// Groups of 4 spend 31.8 ms on their 6 hops, and 41.5 on what leaves a switch; the engine in the
// simulator takes 71.2 ms.
TEST(Switches, WhatPassesAnUplinkIsNotHiddenBehindTheRingsInsideGroups) {
  const Explanation explanation =
      explain(paper_plan(switched(200, 16), 1), Collective::AllReduce, 25 * kMiB);
  const CandidateExplanation& chosen = explanation.candidates.at(0);
  EXPECT_EQ(chosen.algorithm, "all_reduce_two_level_ring:4");
  ASSERT_EQ(chosen.cost.phases.size(), 2u);
  EXPECT_EQ(chosen.cost.phases[0].total_ns, 31'762'200);
  EXPECT_EQ(chosen.cost.uplink_ns, 41'502'605);
  EXPECT_EQ(chosen.cost.total_ns, 31'762'200 + 41'502'605 + 2 * 306'000);
}

TEST(Switches, WideUplinksLeaveTheFastestAtTwoHundredRanks) {
  for (const int ports : {0, 16}) {
    const PlanTable table = paper_plan(switched(200, 16), ports);
    EXPECT_EQ(chosen(table, kMiB / 16), "all_reduce_all_pairs") << ports;
    EXPECT_EQ(chosen(table, 25 * kMiB), "all_reduce_all_pairs") << ports;
  }
  // Without all-pairs, whose parking and connections grow with the ranks.
  EXPECT_EQ(chosen(paper_plan(make_topology(200, 200), 0, "^all_pairs"), 25 * kMiB),
            "all_reduce_two_level_ring:25");
}

TEST(Switches, AGroupSizeThatIsNamedRunsEvenWhereItStraddles) {
  EXPECT_EQ(chosen(paper_plan(switched(200, 16), 1, "two_level_ring:20"), 25 * kMiB),
            "all_reduce_two_level_ring:20");
  EXPECT_EQ(chosen(paper_plan(switched(200, 16), 1, "all_reduce_two_level_ring"), 25 * kMiB),
            "all_reduce_two_level_ring:4");
}

TEST(Switches, WhereNoGroupFitsTheReasonIsGiven) {
  Topology dealt = switched(64, 32);
  for (size_t rank = 0; rank < 64; ++rank) dealt.switch_of_rank[rank] = static_cast<int>(rank % 2);
  const Explanation explanation = explain(paper_plan(dealt, 1), Collective::AllReduce, 25 * kMiB);
  const auto found = std::find_if(
      explanation.candidates.begin(), explanation.candidates.end(),
      [](const auto& candidate) { return candidate.algorithm == "all_reduce_two_level_ring:8"; });
  ASSERT_NE(found, explanation.candidates.end());
  EXPECT_EQ(found->verdict, "groups of 8 neighbours straddle switches, whose uplinks have 1 ports");
  EXPECT_EQ(found->remedy,
            "ranks in the order of their switches, or MCCL_ALGO=all_reduce_two_level_ring:8");
}

TEST(Switches, ANameWithAGroupSizeThatHasNoProgramIsSetAsideWithItsReason) {
  const PlanTable table = paper_plan(make_topology(201, 201), 0, "two_level_ring:20");
  const std::string reason = find_entry(table, Collective::AllReduce, 25 * kMiB).value()->reason;
  EXPECT_THAT(reason, testing::HasSubstr("all_reduce_two_level_ring:20 cannot run: groups of 20 "
                                         "leave 1 of 201 ranks for the last one"));
}

}  // namespace
}  // namespace mccl
