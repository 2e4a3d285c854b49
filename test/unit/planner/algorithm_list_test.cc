#include "planner/algorithm_list.h"

#include <gtest/gtest.h>

#include "literal_algorithms.h"

namespace mccl {
namespace {

using literal::kAll;

AlgorithmList parsed(std::string_view text) {
  Result<AlgorithmList> list = parse_algorithm_list(text, kAll);
  EXPECT_TRUE(list.is_ok()) << list.status().to_string();
  return list.is_ok() ? list.value() : AlgorithmList{};
}

std::string fault(std::string_view text) {
  const Result<AlgorithmList> list = parse_algorithm_list(text, kAll);
  return list.is_ok() ? "no fault" : list.status().message();
}

TEST(AlgorithmList, ReadsNamesInAnyCaseAndWritesThemInOneWay) {
  EXPECT_EQ(to_string(parsed(" Ring , all_reduce_ALL_PAIRS ")), "ring,all_reduce_all_pairs");
  EXPECT_EQ(to_string(parsed("^Tree,RING")), "^tree,ring");
  EXPECT_EQ(to_string(parsed("")), "");
}

TEST(AlgorithmList, AShortNameMeansEveryCollectiveAndTreeMeansRecursiveDoubling) {
  EXPECT_TRUE(list_mentions(parsed("ring"), {&literal::kRing, 0}));
  EXPECT_TRUE(list_mentions(parsed("ring"), {&literal::kGatherRing, 0}));
  EXPECT_FALSE(list_mentions(parsed("all_reduce_ring"), {&literal::kGatherRing, 0}));
  EXPECT_TRUE(list_mentions(parsed("tree"), {&literal::kDoubling, 0}));
  EXPECT_FALSE(list_mentions(parsed("tree"), {&literal::kRing, 0}));
  Algorithm tree = literal::kGatherRing;
  tree.name = "all_gather_binomial_tree";
  EXPECT_TRUE(list_mentions(parsed("tree"), {&tree, 0}));
}

TEST(AlgorithmList, ANameMayCarryAGroupSize) {
  const Algorithm* family = find_algorithm("all_reduce_two_level_ring");
  const Result<AlgorithmList> list = parse_algorithm_list("Two_Level_Ring:20,ring", catalog());
  ASSERT_TRUE(list.is_ok()) << list.status().to_string();
  EXPECT_EQ(to_string(list.value()), "two_level_ring:20,ring");
  EXPECT_TRUE(list_mentions(list.value(), {family, 20}));
  EXPECT_FALSE(list_mentions(list.value(), {family, 2}));
  EXPECT_TRUE(list_mentions(list.value(), {find_algorithm("all_reduce_ring"), 0}));
  EXPECT_EQ(named_group_sizes(list.value(), *family), std::vector<int>{20});
  const Result<AlgorithmList> any_size = parse_algorithm_list("two_level_ring", catalog());
  EXPECT_TRUE(list_mentions(any_size.value(), {family, 2}));
  EXPECT_EQ(named_group_sizes(any_size.value(), *family), std::vector<int>{});
  for (const char* wrong : {"two_level_ring:", "two_level_ring:0", "two_level_ring:x", "ring:20"})
    EXPECT_EQ(parse_algorithm_list(wrong, catalog()).status().code(), StatusCode::InvalidArgument)
        << wrong;
}

TEST(AlgorithmList, NamesOfNcclAreTakenAndMatchNothing) {
  EXPECT_EQ(unmatched_names(parsed("Ring,NVLS"), kAll), (std::vector<std::string>{"nvls"}));
}

TEST(AlgorithmList, ReportsWhatIsWrongWithAName) {
  EXPECT_EQ(fault("rng"),
            "MCCL_ALGO: no program is called \"rng\"; there are all_reduce_ring, "
            "all_reduce_recursive_doubling, all_reduce_all_pairs, all_gather_ring");
  EXPECT_EQ(fault("ring,,tree"), "MCCL_ALGO: a name is empty");
  EXPECT_EQ(fault("^"), "MCCL_ALGO: a name is empty");
  EXPECT_EQ(fault("ring,^tree"),
            "MCCL_ALGO: '^' in \"^tree\"; one leading '^' excludes the whole list");
  EXPECT_EQ(fault("allreduce:ring"),
            "MCCL_ALGO: \"allreduce:ring\"; lists per collective are not served, name the programs "
            "instead, for example all_reduce_ring");
}

TEST(AlgorithmList, IsBounded) {
  std::string text = "ring";
  for (int count = 1; count < 64; ++count) text += ",ring";
  EXPECT_EQ(fault(text), "no fault");
  EXPECT_EQ(fault(text + ",ring"), "MCCL_ALGO: more than 64 names");
}

}  // namespace
}  // namespace mccl
