#include <gtest/gtest.h>

#include <set>

#include "algorithms/catalog.h"
#include "mccl/language.h"
#include "unit/algorithms/choices.h"
#include "verify/verify.h"

namespace mccl {
namespace {

TEST(Proof, HoldsForEveryAlgorithmAndRankCount) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, 64}) {
      const Verdict verdict = verify(algorithm->build(rank_count).value());
      EXPECT_EQ(verdict.to_string(), "") << algorithm->name << " for " << rank_count << " ranks";
    }
}

TEST(Proof, HoldsForEveryGroupSize) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {2, 3, 5, 7, 8, 12, 17, 40}) {
      const std::vector<ProgramChoice> choices = choices_of(*algorithm, rank_count);
      if (choices.front().group_size == 0) continue;
      // Of 40 ranks, groups of 38 and 39 leave too few for the last one.
      EXPECT_EQ(choices.size(), rank_count == 40 ? 38 : static_cast<size_t>(rank_count));
      for (const ProgramChoice& choice : choices)
        EXPECT_EQ(verify(build_program(choice, rank_count).value()).to_string(), "")
            << to_string(choice) << " for " << rank_count << " ranks";
    }
}

TEST(Proof, GivesTheSameTreeToAllBlocksOfADirectReduceScatterAndNoneOfARing) {
  const auto trees = [](const char* name) {
    const Verdict verdict = verify(find_algorithm(name)->build(4).value());
    return std::set<uint64_t>(verdict.proof.output_trees.begin(), verdict.proof.output_trees.end());
  };
  EXPECT_EQ(trees("reduce_scatter_direct").size(), 1u);
  EXPECT_EQ(trees("reduce_scatter_ring").size(), 4u);
}

TEST(Proof, GivesTheSameTreeToAllChunksOfAllPairsAndNoneOfARing) {
  const auto trees = [](const char* name) {
    const Verdict verdict = verify(find_algorithm(name)->build(4).value());
    return std::set<uint64_t>(verdict.proof.output_trees.begin(), verdict.proof.output_trees.end());
  };
  EXPECT_EQ(trees("all_reduce_all_pairs").size(), 1u);
  EXPECT_EQ(trees("all_reduce_ring").size(), 4u);
}

}  // namespace
}  // namespace mccl
