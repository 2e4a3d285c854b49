#include <gtest/gtest.h>

#include <set>

#include "algorithms/catalog.h"
#include "mccl/language.h"
#include "verify/verify.h"

namespace mccl {
namespace {

TEST(Proof, HoldsForEveryAlgorithmAndRankCount) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64}) {
      const Verdict verdict = verify(algorithm->build(rank_count).value());
      EXPECT_EQ(verdict.to_string(), "") << algorithm->name << " for " << rank_count << " ranks";
    }
}

TEST(Proof, HoldsForReplicatedAlgorithms) {
  for (const Algorithm* algorithm : catalog())
    for (const int instances : {2, 3}) {
      const Program copies = replicate(algorithm->build(5).value(), instances).value();
      EXPECT_EQ(verify(copies).to_string(), "") << algorithm->name;
    }
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
