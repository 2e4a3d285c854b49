#include "algorithms/catalog.h"

#include <gtest/gtest.h>

#include "unit/lang/program_text.h"

namespace mccl {
namespace {

TEST(Catalog, ListsTheAlgorithmsInItsOrder) {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : catalog()) names.push_back(algorithm->name);
  EXPECT_EQ(names, (std::vector<std::string_view>{
                       "all_reduce_ring", "all_reduce_recursive_doubling", "all_reduce_all_pairs",
                       "all_gather_ring", "broadcast_binomial_tree"}));
}

TEST(Catalog, FindsAnAlgorithmByItsName) {
  for (const Algorithm* algorithm : catalog())
    EXPECT_EQ(find_algorithm(algorithm->name), algorithm);
  EXPECT_EQ(find_algorithm("all_reduce"), nullptr);
}

TEST(Catalog, BuildsProgramsThatCarryTheirNameCollectiveAndRankCount) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 5}) {
      const Program program = algorithm->build(rank_count).value();
      EXPECT_EQ(program.name, algorithm->name);
      EXPECT_EQ(program.collective, algorithm->collective);
      EXPECT_EQ(program.rank_count(), rank_count);
      EXPECT_TRUE(program.in_place);
      EXPECT_TRUE(program.out_of_place);
    }
}

TEST(Catalog, BuildsTheSameProgramEveryTime) {
  for (const Algorithm* algorithm : catalog())
    EXPECT_EQ(algorithm->build(7).value(), algorithm->build(7).value()) << algorithm->name;
}

TEST(Catalog, SaysWhichAlgorithmsAddInRankOrder) {
  EXPECT_TRUE(find_algorithm("all_reduce_all_pairs")->reduces_in_rank_order);
  EXPECT_FALSE(find_algorithm("all_reduce_ring")->reduces_in_rank_order);
  EXPECT_FALSE(find_algorithm("all_reduce_recursive_doubling")->reduces_in_rank_order);
}

TEST(Catalog, LetsNoMessageOfAllPairsWaitBehindAnother) {
  const Program program = find_algorithm("all_reduce_all_pairs")->build(5).value();
  for (const RankProgram& rank : program.ranks)
    for (const Lane& lane : rank.lanes) {
      EXPECT_EQ(lane.steps.size(), 1u);
      EXPECT_TRUE(lane.send_peer < 0 || lane.recv_peer < 0);
    }
}

TEST(Catalog, SendsResultsOfAllPairsOnAnotherChannelThanShares) {
  const Program program = find_algorithm("all_reduce_all_pairs")->build(4).value();
  for (const RankProgram& rank : program.ranks)
    for (const Lane& lane : rank.lanes) {
      if (lane.send_peer < 0) continue;
      const bool is_share = lane.steps[0].sources[0].buffer == Buffer::Input;
      EXPECT_EQ(lane.channel, is_share ? 0 : 1);
    }
}

TEST(Catalog, GivesEveryRoundOfRecursiveDoublingALaneOfItsOwn) {
  const Program program = find_algorithm("all_reduce_recursive_doubling")->build(16).value();
  for (const RankProgram& rank : program.ranks) {
    ASSERT_EQ(rank.lanes.size(), 5u);
    for (const Lane& lane : rank.lanes) EXPECT_EQ(lane.steps.size(), 1u);
  }
}

}  // namespace
}  // namespace mccl
