#include "algorithms/catalog.h"

#include <gtest/gtest.h>

#include "unit/lang/program_text.h"

namespace mccl {
namespace {

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
      EXPECT_EQ(program.in_place, algorithm->collective != Collective::AllToAll);
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
  EXPECT_TRUE(find_algorithm("reduce_scatter_direct")->reduces_in_rank_order);
  EXPECT_FALSE(find_algorithm("reduce_scatter_ring")->reduces_in_rank_order);
  EXPECT_FALSE(find_algorithm("reduce_binomial_tree")->reduces_in_rank_order);
  EXPECT_TRUE(find_algorithm("reduce_direct")->reduces_in_rank_order);
}

TEST(Catalog, SaysThatBruckAloneNeedsEqualBlocks) {
  for (const Algorithm* algorithm : catalog())
    EXPECT_EQ(algorithm->needs_equal_blocks, algorithm->name == "all_to_all_bruck");
}

// So that a rank of an all-to-all need not know what others send to others.
TEST(Catalog, LetsEveryLaneOfAPairwiseExchangeMoveOneBlockWithOnePeerAndWaitForNothing) {
  const Program program = find_algorithm("all_to_all_pairwise")->build(5).value();
  for (const RankProgram& rank : program.ranks) {
    EXPECT_EQ(rank.lanes.size(), 9u);
    EXPECT_EQ(rank.scratch_chunk_count, 0);
    for (const Lane& lane : rank.lanes) {
      ASSERT_EQ(lane.steps.size(), 1u);
      EXPECT_TRUE(lane.steps[0].dependences.empty());
      EXPECT_TRUE(lane.send_peer < 0 || lane.recv_peer < 0);
    }
  }
}

TEST(Catalog, RotatesTheSendsOfAPairwiseExchange) {
  const Program program = find_algorithm("all_to_all_pairwise")->build(5).value();
  for (int rank = 0; rank < 5; ++rank) {
    std::vector<int> peers;
    for (const Lane& lane : program.ranks[static_cast<size_t>(rank)].lanes)
      if (lane.send_peer >= 0) peers.push_back((lane.send_peer - rank + 5) % 5);
    EXPECT_EQ(peers, (std::vector<int>{1, 2, 3, 4}));
  }
}

TEST(Catalog, ForwardsPartialSumsOfAReduceScatterRingWithoutKeepingThem) {
  const Program program = find_algorithm("reduce_scatter_ring")->build(5).value();
  for (const RankProgram& rank : program.ranks) {
    EXPECT_EQ(rank.scratch_chunk_count, 0);
    ASSERT_EQ(rank.lanes.size(), 1u);
    EXPECT_EQ(rank.lanes[0].steps.size(), 5u);
  }
}

TEST(Catalog, SendsOneMessagePerRoundOfBruck) {
  const Program program = find_algorithm("all_to_all_bruck")->build(8).value();
  for (const RankProgram& rank : program.ranks) {
    int messages = 0;
    for (const Lane& lane : rank.lanes)
      for (const Step& step : lane.steps)
        if (step.opcode == Opcode::Send) {
          ++messages;
          EXPECT_EQ(step.sources[0].count, 4);
        }
    EXPECT_EQ(messages, 3);
  }
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
