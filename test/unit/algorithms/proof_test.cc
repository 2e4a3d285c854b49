#include <gtest/gtest.h>

#include <set>

#include "algorithms/catalog.h"
#include "mccl/language.h"
#include "verify/verify.h"

namespace mccl {
namespace {

bool has_messages_of_several_chunks(const Algorithm& algorithm) {
  for (const char* name : {"all_reduce_halving_doubling", "gather_binomial_tree",
                           "scatter_binomial_tree", "all_to_all_bruck"})
    if (algorithm.name == name) return true;
  return false;
}

TEST(Proof, HoldsForEveryAlgorithmAndRankCount) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33, 64}) {
      const Verdict verdict = verify(algorithm->build(rank_count).value());
      EXPECT_EQ(verdict.to_string(), "") << algorithm->name << " for " << rank_count << " ranks";
    }
}

TEST(Proof, HoldsForReplicatedAlgorithms) {
  for (const Algorithm* algorithm : catalog())
    for (const int instances : {2, 3}) {
      const Result<Program> copies = replicate(algorithm->build(5).value(), instances);
      if (has_messages_of_several_chunks(*algorithm)) {
        EXPECT_EQ(copies.status().code(), StatusCode::Unsupported) << algorithm->name;
        continue;
      }
      EXPECT_EQ(verify(copies.value()).to_string(), "") << algorithm->name;
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
