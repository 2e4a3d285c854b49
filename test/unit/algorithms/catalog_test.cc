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

TEST(Catalog, NamesAProgramOfAFamilyWithItsGroupSize) {
  const Algorithm* family = find_algorithm("all_reduce_two_level_ring");
  const Algorithm* ring = find_algorithm("all_reduce_ring");
  const ProgramChoice twenty{family, 20};
  EXPECT_EQ(to_string(twenty), "all_reduce_two_level_ring:20");
  EXPECT_EQ(to_string(ProgramChoice{ring, 0}), "all_reduce_ring");
  EXPECT_EQ(find_choice("all_reduce_two_level_ring:20", catalog()), twenty);
  EXPECT_EQ(find_choice("all_reduce_ring", catalog()), (ProgramChoice{ring, 0}));
  for (const char* wrong : {"all_reduce_two_level_ring", "all_reduce_ring:20",
                            "all_reduce_two_level_ring:", "all_reduce_two_level_ring:0",
                            "all_reduce_two_level_ring:020", "all_reduce_two_level_ring:-2",
                            "all_reduce_two_level_ring:2x", "two_level_ring:20",
                            "all_reduce_two_level_ring:99999999999", ""})
    EXPECT_EQ(find_choice(wrong, catalog()), ProgramChoice{}) << wrong;
}

TEST(Catalog, RefusesGroupSizesByName) {
  const ProgramChoice choice{find_algorithm("all_reduce_two_level_ring"), 20};
  EXPECT_TRUE(check_rank_count(choice, 200).is_ok());
  EXPECT_TRUE(check_rank_count(choice, 20).is_ok());
  EXPECT_EQ(check_rank_count(choice, 19).message(),
            "groups of 20, allowed are 1 to 19 for 19 ranks");
  EXPECT_EQ(check_rank_count(choice, 201).message(),
            "groups of 20 leave 1 of 201 ranks for the last one, at least 2 are needed");
  EXPECT_TRUE(check_rank_count(choice, 202).is_ok());
  EXPECT_EQ(check_rank_count(choice, 4097).message(),
            "it serves at most 4096 ranks, the communicator has 4097");
}

TEST(Catalog, BuildsProgramsThatCarryTheirNameCollectiveAndRankCount) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 5}) {
      const Program program = algorithm->build(rank_count).value();
      EXPECT_EQ(program.name, to_string(default_program(*algorithm, rank_count)));
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
