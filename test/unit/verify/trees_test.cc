#include "verify/trees.h"

#include <gtest/gtest.h>

namespace mccl::judge {
namespace {

TEST(TreePool, ABinaryNodeIsAnUnorderedPair) {
  TreePool trees(3);
  EXPECT_EQ(trees.binary(0, 1), trees.binary(1, 0));
  EXPECT_NE(trees.binary(0, 1), trees.binary(0, 2));
}

TEST(TreePool, NestingMatters) {
  TreePool trees(3);
  EXPECT_NE(trees.binary(trees.binary(0, 1), 2), trees.binary(0, trees.binary(1, 2)));
}

TEST(TreePool, AFoldOfOneIsItsOperandAndOfTwoABinaryNode) {
  TreePool trees(3);
  EXPECT_EQ(trees.fold({2}), 2);
  EXPECT_EQ(trees.fold({2, 1}), trees.binary(1, 2));
}

TEST(TreePool, AFoldOfThreeIsNoChainAndOnlyItsFirstTwoAreUnordered) {
  TreePool trees(3);
  const Tree fold = trees.fold({0, 1, 2});
  EXPECT_NE(fold, trees.binary(trees.binary(0, 1), 2));
  EXPECT_EQ(fold, trees.fold({1, 0, 2}));
  EXPECT_NE(fold, trees.fold({0, 2, 1}));
}

TEST(TreePool, DigestsDoNotDependOnTheOrderOfDiscovery) {
  TreePool first(4);
  TreePool second(4);
  const Tree low = first.binary(0, 1);
  const Tree high = first.binary(2, 3);
  const Tree second_high = second.binary(3, 2);
  const Tree second_low = second.binary(1, 0);
  EXPECT_NE(low, second_low);
  EXPECT_EQ(first.digest(first.binary(low, high)),
            second.digest(second.binary(second_high, second_low)));
}

TEST(TreePool, NamesARankThatIsMissingOrRepeated) {
  TreePool trees(70);
  std::vector<Tree> all;
  for (int rank = 0; rank < 69; ++rank) all.push_back(rank);
  const Tree most = trees.fold(all);
  EXPECT_EQ(trees.contains(most, 69), false);
  EXPECT_EQ(trees.contains(most, 68), true);
  EXPECT_EQ(trees.leaf_count(most), 69);
  EXPECT_EQ(trees.repeated_leaf(most), -1);
  const Tree complete = trees.binary(most, 69);
  EXPECT_EQ(trees.leaf_count(complete), 70);
  EXPECT_EQ(trees.repeated_leaf(trees.binary(complete, 68)), 68);
}

TEST(TreePool, KeepsApartMoreTreesThanItsFirstTableHolds) {
  TreePool trees(2000);
  for (int rank = 1; rank < 2000; ++rank) EXPECT_EQ(trees.binary(0, rank), 1999 + rank);
  for (int rank = 1; rank < 2000; ++rank) EXPECT_EQ(trees.binary(rank, 0), 1999 + rank);
}

TEST(TreePool, DescribesStructureAndCutsLongTexts) {
  TreePool trees(100);
  EXPECT_EQ(trees.describe(trees.binary(trees.fold({0, 1, 2}), 3)), "(3 + fold(0, 1, 2))");
  Tree chain = 0;
  for (int rank = 1; rank < 100; ++rank) chain = trees.binary(chain, rank);
  EXPECT_EQ(trees.describe(chain).size(), 163u);
}

}  // namespace
}  // namespace mccl::judge
