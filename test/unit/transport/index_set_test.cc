#include "transport/index_set.h"

#include <gtest/gtest.h>

#include <vector>

namespace mccl {
namespace {

std::vector<size_t> members_of(const IndexSet& set) {
  std::vector<size_t> members;
  set.visit([&](size_t index) { members.push_back(index); });
  return members;
}

TEST(IndexSet, VisitsInAscendingOrder) {
  IndexSet set;
  EXPECT_EQ(members_of(set), std::vector<size_t>{});
  for (const size_t index : std::vector<size_t>{200, 0, 63, 64, 127, 128, 5}) set.insert(index);
  EXPECT_EQ(members_of(set), (std::vector<size_t>{0, 5, 63, 64, 127, 128, 200}));
  set.insert(5);
  set.erase(64);
  set.erase(0);
  set.erase(1'000);
  EXPECT_EQ(members_of(set), (std::vector<size_t>{5, 63, 127, 128, 200}));
  EXPECT_TRUE(set.contains(127));
  EXPECT_FALSE(set.contains(64));
  EXPECT_FALSE(set.contains(1'000));
}

TEST(IndexSet, VisitsWhoJoinsBehindThePresentOneAndNotWhoHasLeft) {
  IndexSet set;
  for (const size_t index : std::vector<size_t>{3, 10, 70}) set.insert(index);
  std::vector<size_t> members;
  set.visit([&](size_t index) {
    members.push_back(index);
    set.erase(index);
    if (index == 10) set.erase(70);
    if (index == 10) set.insert(11);
    if (index == 10) set.insert(300);
    if (index == 10) set.insert(2);
  });
  EXPECT_EQ(members, (std::vector<size_t>{3, 10, 11, 300}));
  EXPECT_EQ(members_of(set), std::vector<size_t>{2});
}

}  // namespace
}  // namespace mccl
