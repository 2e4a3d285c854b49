#include <gtest/gtest.h>

#include <algorithm>

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

TEST(Proof, GivesAllPairsOneTreeForEveryChunk) {
  const Verdict verdict = verify(find_algorithm("all_reduce_all_pairs")->build(4).value());
  ASSERT_TRUE(verdict.is_proven());
  const std::vector<uint64_t>& trees = verdict.proof.output_trees;
  ASSERT_EQ(trees.size(), 4u);
}

}  // namespace
}  // namespace mccl
