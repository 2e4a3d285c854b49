#include "planner/topology.h"

#include <gtest/gtest.h>

#include "planner/link_profile.h"

namespace mccl {
namespace {

TEST(Topology, DealsRanksToHostsInBlocks) {
  EXPECT_EQ(make_topology(5, 2).host_of_rank, (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(make_topology(3, 3).host_of_rank, (std::vector<int>{0, 1, 2}));
}

TEST(Topology, NamesTheInconsistentField) {
  EXPECT_TRUE(check_topology(make_topology(4, 2)).is_ok());
  EXPECT_EQ(check_topology({.rank_count = 0, .host_count = 1, .host_of_rank = {}}).message(),
            "topology: 0 ranks");
  EXPECT_EQ(check_topology({.rank_count = 2, .host_count = 3, .host_of_rank = {0, 1}}).message(),
            "topology: 3 hosts for 2 ranks");
  EXPECT_EQ(check_topology({.rank_count = 2, .host_count = 1, .host_of_rank = {0}}).message(),
            "topology: 1 host entries for 2 ranks");
  EXPECT_EQ(check_topology({.rank_count = 2, .host_count = 2, .host_of_rank = {0, 2}}).message(),
            "topology: rank 1 lives on host 2 of 2");
}

TEST(LinkProfile, AutoIsLoopbackOnOneHostAndLanOnSeveral) {
  EXPECT_EQ(link_profile(CostProfile::Auto, make_topology(4, 1)).profile, CostProfile::Loopback);
  EXPECT_EQ(link_profile(CostProfile::Auto, make_topology(4, 2)).profile, CostProfile::Lan);
  EXPECT_EQ(link_profile(CostProfile::Paper, make_topology(4, 1)).profile, CostProfile::Paper);
}

TEST(LinkProfile, ACostOutOfRangeIsNamed) {
  EXPECT_TRUE(check_link_costs({.alpha_ns = 5, .alpha_high_ns = 5}).is_ok());
  EXPECT_EQ(check_link_costs({.alpha_ns = 5, .alpha_high_ns = 4}).message(),
            "link costs: alpha_high_ns is 4, allowed are 5 to 1000000000000");
  EXPECT_EQ(check_link_costs({.bytes_per_second = 0}).message(),
            "link costs: bytes_per_second is 0, allowed are 1 to 1000000000000000");
}

}  // namespace
}  // namespace mccl
