#include "planner/planner.h"

#include <gtest/gtest.h>

#include "literal_algorithms.h"
#include "planner/call_plan.h"
#include "planner/selection.h"

namespace mccl {
namespace {

using literal::kAll;
using literal::kPapers;
using literal::kRingOnly;

constexpr int64_t kKiB = 1024;

PlanTable built(const Topology& topology, const PlannerSettings& settings,
                std::span<const Algorithm* const> algorithms) {
  Result<PlanTable> table = build_plan_table(topology, settings, algorithms);
  EXPECT_TRUE(table.is_ok()) << table.status().to_string();
  return table.is_ok() ? table.value() : PlanTable{};
}

std::string fault(const Topology& topology, const PlannerSettings& settings,
                  std::span<const Algorithm* const> algorithms) {
  const Result<PlanTable> table = build_plan_table(topology, settings, algorithms);
  return table.is_ok() ? "no fault" : table.status().to_string();
}

// "0 ring 65536 all_pairs ...": the windows of a collective, by their beginnings.
std::string windows(const PlanTable& table, Collective collective = Collective::AllReduce) {
  std::string text;
  for (const CollectivePlan& plan : table.collectives)
    for (const PlanWindow& window : plan.windows)
      if (plan.collective == collective)
        text += std::to_string(window.begin_bytes) + " " +
                window.entry.algorithm.substr(collective_name(collective).size() + 1) + " ";
  return text;
}

TEST(Planner, ProfilePaperSwitchesAboveTwoHundredFiftySixKibibytes) {
  const PlannerSettings paper = {.profile = CostProfile::Paper};
  const PlanTable table = built(make_topology(24, 24), paper, kAll);
  EXPECT_EQ(windows(table), "0 recursive_doubling 262145 ring ");
  const auto at = [&](int64_t bytes) {
    return find_entry(table, Collective::AllReduce, bytes).value()->algorithm;
  };
  EXPECT_EQ(at(0), "all_reduce_recursive_doubling");
  EXPECT_EQ(at(262'144), "all_reduce_recursive_doubling");
  EXPECT_EQ(at(262'145), "all_reduce_ring");
  EXPECT_EQ(at(int64_t{1} << 50), "all_reduce_ring");
  EXPECT_EQ(find_entry(table, Collective::AllGather, 5).value()->algorithm, "all_gather_ring");
}

TEST(Planner, ExactlyTheSwitchStillDoubles) {
  EXPECT_STREQ(paper_choice(262'144), "all_reduce_recursive_doubling");
  EXPECT_STREQ(paper_choice(262'145), "all_reduce_ring");
}

TEST(Planner, AHighPercentileOfTheLatencySizesTheWindow) {
  // lan: 60 us * 1.177 GB/s = 70,620 bytes, and a slice, in whole slices of 65,536.
  const PlanTable table = built(make_topology(4, 4), {}, kRingOnly);
  EXPECT_EQ(find_entry(table, Collective::AllReduce, 1 << 20).value()->window_bytes, 196'608);
}

TEST(Planner, WindowsFollowFromTheLawInWholeSlices) {
  const PlanTable table = built(make_topology(24, 24), {.profile = CostProfile::Paper}, kAll);
  const std::string reason = "profile paper: above 262144 bytes the ring, else recursive doubling";
  // 378,828 + 65,536 bytes are seven slices; 378,828 + 262,144 three.
  EXPECT_EQ(*find_entry(table, Collective::AllReduce, 1 << 20).value(),
            (PlanEntry{.algorithm = "all_reduce_ring",
                       .window_bytes = 458'752,
                       .slice_bytes = 65'536,
                       .frame_bytes = 65'536,
                       .channel_sets = 4,
                       .reason = reason}));
  EXPECT_EQ(*find_entry(table, Collective::AllReduce, 1024).value(),
            (PlanEntry{.algorithm = "all_reduce_recursive_doubling",
                       .window_bytes = 786'432,
                       .slice_bytes = 262'144,
                       .frame_bytes = 65'536,
                       .channel_sets = 1,
                       .reason = reason}));
}

TEST(Planner, ManyParallelStreamsShareTheWindow) {
  const PlanTable table = built(make_topology(24, 24), {.algo = "all_pairs"}, kAll);
  const PlanEntry& entry = *find_entry(table, Collective::AllReduce, 1 << 20).value();
  EXPECT_EQ(entry.window_bytes, 65'536);
  EXPECT_EQ(entry.slice_bytes, 65'536);
}

TEST(Planner, LoopbackOfTwoRanksHasABandOfAllPairsAboveDoubling) {
  const PlanTable table = built(make_topology(2, 1), {}, kAll);
  EXPECT_EQ(table.link.profile, CostProfile::Loopback);
  EXPECT_EQ(windows(table), "0 recursive_doubling 323584 all_pairs 1052672 ring ");
}

TEST(Planner, LoopbackOfFourRanksHasABandOfAllPairs) {
  EXPECT_EQ(windows(built(make_topology(4, 1), {}, kAll)),
            "0 recursive_doubling 32768 all_pairs 2101248 ring ");
}

TEST(Planner, LanOfTwentyFourRanksDoublesOnlyTheSmallest) {
  EXPECT_EQ(windows(built(make_topology(24, 24), {}, kAll)),
            "0 recursive_doubling 4096 all_pairs 1576960 ring ");
}

TEST(Planner, EqualCostsGoToTheEarlierProgram) {
  Algorithm twin = literal::kRing;
  twin.name = "all_reduce_twin";
  const std::array<const Algorithm*, 2> twin_first = {&twin, &literal::kRing};
  const std::array<const Algorithm*, 2> ring_first = {&literal::kRing, &twin};
  EXPECT_EQ(windows(built(make_topology(4, 1), {}, twin_first)), "0 twin ");
  EXPECT_EQ(windows(built(make_topology(4, 1), {}, ring_first)), "0 ring ");
}

TEST(Planner, MeasuredCostsAndSlicesReplaceThoseOfTheProfile) {
  const LinkCosts measured = {.alpha_ns = 1'000,
                              .alpha_high_ns = 2'000,
                              .bytes_per_second = 1'000'000'000,
                              .gamma_bytes_per_second = 0,
                              .overhead_ns = 0};
  const PlanTable table =
      built(make_topology(4, 1), {.costs = measured, .slice_bytes = 10'000}, kRingOnly);
  EXPECT_EQ(table.link.costs, measured);
  const PlanEntry& entry = *find_entry(table, Collective::AllReduce, 1).value();
  EXPECT_EQ(entry.slice_bytes, 10'048);
  EXPECT_EQ(entry.window_bytes, 27 * 10'048);  // 2,000 + the frame of 262,144
}

TEST(Planner, AListRestrictsOnlyCollectivesThatItNames) {
  const PlanTable table = built(make_topology(8, 8), {.algo = "all_reduce_all_pairs"}, kAll);
  EXPECT_EQ(windows(table), "0 all_pairs ");
  EXPECT_EQ(find_entry(table, Collective::AllReduce, 9).value()->reason,
            "the only admissible program; MCCL_ALGO=all_reduce_all_pairs");
  EXPECT_EQ(find_entry(table, Collective::AllGather, 9).value()->reason,
            "the only admissible program");
}

TEST(Planner, AnExclusionLeavesTheOthers) {
  EXPECT_EQ(windows(built(make_topology(2, 1), {.algo = "^ring,tree"}, std::span(kAll).first(3))),
            "0 all_pairs ");
}

TEST(Planner, ACollectiveOfWhichNothingIsLeftKeepsTheReason) {
  const PlanTable table = built(make_topology(2, 1), {.algo = "^all_gather_ring"}, kAll);
  const Result<const PlanEntry*> entry = find_entry(table, Collective::AllGather, 9);
  ASSERT_FALSE(entry.is_ok());
  EXPECT_EQ(entry.status().to_string(),
            "unsupported: no program for all_gather may run: all_gather_ring: "
            "MCCL_ALGO=^all_gather_ring excludes it (would do: take its name out of MCCL_ALGO)");
  EXPECT_TRUE(find_entry(table, Collective::AllReduce, 9).is_ok());
}

TEST(Planner, ACollectiveWithoutProgramsIsUnsupported) {
  const PlanTable table = built(make_topology(2, 1), {}, kAll);
  EXPECT_EQ(find_entry(table, Collective::Broadcast, 9).status().to_string(),
            "unsupported: no program for broadcast");
}

TEST(Planner, ANamedProgramThatCannotRunIsSetAsideWithTheReason) {
  const PlanTable table = built(make_topology(300, 300), {.algo = "all_pairs"}, kAll);
  const PlanEntry& entry = *find_entry(table, Collective::AllReduce, 1 << 30).value();
  EXPECT_EQ(entry.algorithm, "all_reduce_ring");
  EXPECT_EQ(entry.reason,
            "fastest of 2 by the cost model; MCCL_ALGO=all_pairs set aside: all_reduce_all_pairs "
            "cannot run: it serves at most 256 ranks, the communicator has 300");
}

TEST(Planner, StrictRefusesANamedProgramThatCannotRun) {
  EXPECT_EQ(fault(make_topology(300, 300), {.algo = "all_pairs", .is_strict = true}, kAll),
            "unsupported: MCCL_ALGO=all_pairs names all_reduce_all_pairs, which cannot run: it "
            "serves at most 256 ranks, the communicator has 300; would do: a communicator of at "
            "most 256 ranks, or MCCL_ALGO_STRICT=0");
  EXPECT_EQ(fault(make_topology(4, 1),
                  {.algo = "all_reduce_ring", .is_strict = true, .is_canonical = true}, kAll),
            "unsupported: MCCL_ALGO=all_reduce_ring names all_reduce_ring, which cannot run: "
            "MCCL_DETERMINISTIC=canonical, and it does not reduce in rank order; would do: unset "
            "MCCL_DETERMINISTIC, or MCCL_ALGO_STRICT=0");
  EXPECT_EQ(fault(make_topology(4, 1), {.algo = "nvls", .is_strict = true}, kAll),
            "unsupported: MCCL_ALGO=nvls names nvls, which is not a program of this library; would "
            "do: take it out of the list, or MCCL_ALGO_STRICT=0");
  EXPECT_EQ(fault(make_topology(4, 1), {.algo = "all_pairs", .is_strict = true}, kAll), "no fault");
}

TEST(Planner, CanonicalAdmitsOnlyReductionsInRankOrder) {
  const PlanTable table = built(make_topology(4, 4), {.is_canonical = true}, kAll);
  EXPECT_EQ(windows(table), "0 all_pairs ");
  EXPECT_TRUE(find_entry(table, Collective::AllGather, 9).is_ok());  // nothing to reduce
  EXPECT_EQ(fault(make_topology(4, 4), {.is_strict = true, .is_canonical = true}, kRingOnly),
            "unsupported: no program for all_reduce may run: all_reduce_ring: "
            "MCCL_DETERMINISTIC=canonical, and it does not reduce in rank order (would do: unset "
            "MCCL_DETERMINISTIC)");
}

TEST(Planner, AParkLimitShortensSlicesAndThenRejects) {
  // 200 ranks: 398 streams of two messages each.
  const std::array<const Algorithm*, 1> pairs = {&literal::kAllPairs};
  const auto limited = [&](int64_t limit) {
    return built(make_topology(200, 200), {.park_limit_bytes = limit}, pairs);
  };
  EXPECT_EQ(find_entry(limited(53 << 20), Collective::AllReduce, 9).value()->slice_bytes, 65'536);
  EXPECT_EQ(find_entry(limited(10 << 20), Collective::AllReduce, 9).value()->slice_bytes, 13'120);
  EXPECT_EQ(
      find_entry(limited(1 << 20), Collective::AllReduce, 9).status().message(),
      "no program for all_reduce may run: all_reduce_all_pairs: its streams own at least "
      "3260416 bytes, MCCL_PARK_LIMIT is 1048576 (would do: MCCL_PARK_LIMIT=3260416 or more)");
}

TEST(Planner, AParkLimitReckonsWithMessagesOfSeveralChunks) {
  // 16 ranks: 8 streams of two messages of up to 8 chunks.
  const std::array<const Algorithm*, 1> halving = {find_algorithm("all_reduce_halving_doubling")};
  const auto limited = [&](int64_t limit) {
    return built(make_topology(16, 1), {.park_limit_bytes = limit}, halving);
  };
  EXPECT_EQ(find_entry(limited(1 << 20), Collective::AllReduce, 9).value()->slice_bytes, 8'192);
  EXPECT_EQ(find_entry(limited(524'287), Collective::AllReduce, 9).status().message(),
            "no program for all_reduce may run: all_reduce_halving_doubling: its streams own at "
            "least 524288 bytes, MCCL_PARK_LIMIT is 524287 (would do: MCCL_PARK_LIMIT=524288 or "
            "more)");
}

TEST(Planner, TheSameArgumentsGiveTheSameTable) {
  for (const int rank_count : {1, 2, 3, 24, 200}) {
    const Topology topology = make_topology(rank_count, 1);
    EXPECT_EQ(built(topology, {}, kAll), built(topology, {}, kAll));
  }
}

TEST(Planner, OneRankHasAPlanForEverySize) {
  const PlanTable table = built(make_topology(1, 1), {}, kAll);
  EXPECT_EQ(windows(table), "0 ring ");
}

TEST(Planner, WindowsAreContiguousForEveryRankCountAndProfile) {
  for (const CostProfile profile : {CostProfile::Loopback, CostProfile::Lan, CostProfile::Paper})
    for (int rank_count = 1; rank_count <= 64; ++rank_count) {
      const PlanTable table = built(make_topology(rank_count, 1), {.profile = profile}, kAll);
      for (const CollectivePlan& plan : table.collectives) {
        int64_t begin = 0;
        for (const PlanWindow& window : plan.windows) {
          ASSERT_EQ(window.begin_bytes, begin);
          ASSERT_LT(window.begin_bytes, window.end_bytes);
          ASSERT_EQ(window.entry.window_bytes % window.entry.slice_bytes, 0);
          begin = window.end_bytes;
        }
        ASSERT_EQ(begin, kBytesUnlimited);
      }
    }
}

TEST(Planner, WrongArgumentsAreNamed) {
  EXPECT_EQ(fault({.rank_count = 2, .host_count = 1, .host_of_rank = {}}, {}, kAll),
            "invalid argument: topology: 0 host entries for 2 ranks");
  EXPECT_EQ(
      fault(make_topology(2, 1), {.algo = "rung"}, kRingOnly),
      "invalid argument: MCCL_ALGO: no program is called \"rung\"; there are all_reduce_ring");
  EXPECT_EQ(fault(make_topology(2, 1), {.slice_bytes = 4095}, kAll),
            "invalid argument: slice of 4095 bytes, allowed are 4096 to 1073741824");
  EXPECT_EQ(fault(make_topology(2, 1), {.park_limit_bytes = 0}, kAll),
            "invalid argument: MCCL_PARK_LIMIT is 0, allowed are 1 to 1099511627776");
  EXPECT_EQ(fault(make_topology(2, 1), {.costs = LinkCosts{.bytes_per_second = 0}}, kAll),
            "invalid argument: link costs: bytes_per_second is 0, allowed are 1 to "
            "1000000000000000");
}

TEST(Planner, SettingsOfAConfigArriveInTheTable) {
  Config config;
  config.cost_profile = CostProfile::Paper;
  config.algorithms = "^all_pairs";
  config.is_canonical_order = false;
  config.park_limit_bytes = 64 * kKiB * kKiB;
  const PlanTable table = built(make_topology(8, 8), planner_settings(config), kAll);
  EXPECT_EQ(table.link.profile, CostProfile::Paper);
  EXPECT_EQ(table.algo, "^all_pairs");
  EXPECT_EQ(table.park_limit_bytes, 64 * kKiB * kKiB);
}

TEST(Planner, HalvingAndDoublingHasABandOfTheCatalogueAmongManyRanksOfAPowerOfTwo) {
  EXPECT_EQ(windows(built(make_topology(4, 1), {}, catalog())),
            "0 recursive_doubling 32768 all_pairs 2101248 ring ");
  EXPECT_EQ(windows(built(make_topology(16, 1), {}, catalog())),
            "0 recursive_doubling 49152 halving_doubling 90112 all_pairs 8392704 ring ");
  EXPECT_EQ(windows(built(make_topology(24, 24), {}, catalog())),
            "0 recursive_doubling 12288 all_pairs 1576960 two_level_ring:8 1761280 ring ");
}

TEST(Planner, OtherCollectivesOfTheCatalogueAreDirectWhenSmallAndPipelinedWhenLarge) {
  const PlanTable table = built(make_topology(4, 1), {}, catalog());
  EXPECT_EQ(windows(table, Collective::AllGather), "0 direct 2101248 ring ");
  EXPECT_EQ(windows(table, Collective::ReduceScatter), "0 direct 2101248 ring ");
  EXPECT_EQ(windows(table, Collective::Broadcast), "0 binomial_tree 1052672 ring ");
  EXPECT_EQ(windows(table, Collective::Reduce),
            "0 binomial_tree 4096 direct 28672 binomial_tree 528384 ring ");
}

TEST(Planner, TreesOfTheCatalogueGatherAndScatterSmallBlocksAmongManyRanks) {
  const PlanTable table = built(make_topology(16, 1), {}, catalog());
  EXPECT_EQ(windows(table, Collective::Gather), "0 binomial_tree 90112 direct ");
  EXPECT_EQ(windows(table, Collective::Scatter), "0 binomial_tree 90112 direct ");
}

TEST(Planner, AProgramThatNeedsEqualBlocksRunsWhereItIsNamedOnly) {
  const auto of_list = [](const char* algo) {
    return built(make_topology(16, 1), {.algo = algo}, catalog());
  };
  EXPECT_EQ(windows(of_list(""), Collective::AllToAll), "0 pairwise ");
  EXPECT_EQ(windows(of_list("ring"), Collective::AllToAll), "0 pairwise ");
  EXPECT_EQ(windows(of_list("^ring"), Collective::AllToAll), "0 pairwise ");
  EXPECT_EQ(windows(of_list("all_to_all_bruck"), Collective::AllToAll), "0 bruck ");
  EXPECT_EQ(windows(of_list("bruck"), Collective::AllToAll), "0 bruck ");
  EXPECT_EQ(find_entry(of_list("^pairwise"), Collective::AllToAll, 9).status().message(),
            "no program for all_to_all may run: all_to_all_pairwise: MCCL_ALGO=^pairwise excludes "
            "it (would do: take its name out of MCCL_ALGO); all_to_all_bruck: it serves equal "
            "blocks only, and no rank can know that of the others' (would do: "
            "MCCL_ALGO=all_to_all_bruck)");
}

TEST(Planner, EveryReducingCollectiveOfTheCatalogueHasACanonicalProgram) {
  const PlanTable table = built(make_topology(8, 1), {.is_canonical = true}, catalog());
  EXPECT_EQ(windows(table), "0 all_pairs ");
  EXPECT_EQ(windows(table, Collective::ReduceScatter), "0 direct ");
  EXPECT_EQ(windows(table, Collective::Reduce), "0 direct ");
}

TEST(Planner, EveryCollectiveOfTheCatalogueHasAPlan) {
  const PlanTable table = built(make_topology(4, 1), {}, catalog());
  for (const Algorithm* algorithm : catalog())
    EXPECT_TRUE(find_entry(table, algorithm->collective, 1 << 20).is_ok()) << algorithm->name;
  const PlanTable papers = built(make_topology(24, 24), {.profile = CostProfile::Paper}, kPapers);
  EXPECT_EQ(windows(papers), "0 recursive_doubling 262145 ring ");
  const PlanTable all = built(make_topology(16, 16), {.profile = CostProfile::Paper}, catalog());
  EXPECT_EQ(windows(all), "0 recursive_doubling 262145 ring ");
}

}  // namespace
}  // namespace mccl
