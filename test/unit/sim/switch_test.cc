// Nodes at switches: literal times on links with 1000 ns of latency and one byte per nanosecond,
// two nodes at each switch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talking_node.h"

namespace mccl::sim {
namespace {

using testing::ElementsAre;

constexpr uint64_t kA = 1;
constexpr uint64_t kAccepted = TalkingNode::kFirstAccepted;

WorldOptions switched_link(int uplink_ports) {
  WorldOptions options = plain_link();
  options.nodes_per_switch = 2;
  options.uplink_ports = uplink_ports;
  return options;
}

struct FourNodes {
  explicit FourNodes(const WorldOptions& options)
      : world(options), first(world), second(world), third(world), fourth(world) {}
  World world;
  TalkingNode first, second;  // at one switch
  TalkingNode third, fourth;  // at the other
};

TEST(Switch, AnIdleUplinkCostsNothing) {
  FourNodes nodes(switched_link(1));
  nodes.first.connect(nodes.third, kA);
  nodes.first.send_at(10'000, kA, std::string(500, 'x'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
}

TEST(Switch, TwoPairsShareAnUplinkOfOnePort) {
  FourNodes nodes(switched_link(1));
  nodes.first.connect(nodes.third, kA);
  nodes.second.connect(nodes.fourth, kA);
  nodes.first.send_at(10'000, kA, std::string(500, 'x'));
  nodes.second.send_at(10'100, kA, std::string(300, 'y'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
  // The uplink is busy until 11'500.
  EXPECT_THAT(nodes.fourth.arrivals(), ElementsAre(Arrival{11'800, kAccepted, 300}));
}

TEST(Switch, TwoPairsFindRoomInAnUplinkOfTwoPorts) {
  FourNodes nodes(switched_link(2));
  nodes.first.connect(nodes.third, kA);
  nodes.second.connect(nodes.fourth, kA);
  nodes.first.send_at(10'000, kA, std::string(500, 'x'));
  nodes.second.send_at(10'100, kA, std::string(300, 'y'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
  // The uplink, twice as fast, is busy until 11'250.
  EXPECT_THAT(nodes.fourth.arrivals(), ElementsAre(Arrival{11'550, kAccepted, 300}));
}

TEST(Switch, TheUplinkIsNoLimitWithoutItsPorts) {
  FourNodes nodes(switched_link(0));
  nodes.first.connect(nodes.third, kA);
  nodes.second.connect(nodes.fourth, kA);
  nodes.first.send_at(10'000, kA, std::string(500, 'x'));
  nodes.second.send_at(10'000, kA, std::string(500, 'y'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
  EXPECT_THAT(nodes.fourth.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
}

TEST(Switch, TrafficInsideASwitchStaysOffTheUplink) {
  FourNodes nodes(switched_link(1));
  nodes.first.connect(nodes.third, kA);
  nodes.second.connect(nodes.first, kA);
  nodes.first.send_at(10'000, kA, std::string(5'000, 'x'));
  nodes.second.send_at(10'000, kA, std::string(300, 'y'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.first.arrivals(), ElementsAre(Arrival{11'300, kAccepted, 300}));
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{16'000, kAccepted, 5'000}));
}

TEST(Switch, BothDirectionsOfAnUplinkRunAtFullRate) {
  FourNodes nodes(switched_link(1));
  nodes.first.connect(nodes.third, kA);
  nodes.first.send_at(10'000, kA, std::string(5'000, 'x'));
  nodes.third.send_at(10'000, kAccepted, std::string(5'000, 'y'));
  nodes.world.run(never);
  EXPECT_THAT(nodes.first.arrivals(), ElementsAre(Arrival{16'000, kA, 5'000}));
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{16'000, kAccepted, 5'000}));
}

TEST(Switch, SendersAtTwoSwitchesShareTheDownlinkOfAThird) {
  World world(switched_link(1));
  TalkingNode first(world), unused(world), third(world), also_unused(world), fifth(world),
      sixth(world);
  first.connect(fifth, kA);
  third.connect(sixth, kA);
  first.send_at(10'000, kA, std::string(500, 'x'));
  third.send_at(10'100, kA, std::string(300, 'y'));
  world.run(never);
  EXPECT_THAT(fifth.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
  EXPECT_THAT(sixth.arrivals(), ElementsAre(Arrival{11'800, kAccepted, 300}));
}

TEST(Switch, SegmentsInAFullUplinkLoseNoBandwidthToRounding) {
  WorldOptions options = switched_link(1);
  options.bytes_per_second = 1'238'000'000;
  options.segment_bytes_max = 1;
  FourNodes nodes(options);
  nodes.first.connect(nodes.third, kA);
  nodes.second.connect(nodes.fourth, kA);
  nodes.first.send_at(10'000, kA, counting_text(100'000));
  nodes.second.send_at(10'000, kA, counting_text(100'000));
  nodes.world.run(never);
  // 200'000 / 1.238 = 161'550.9; each port on the way may round up once.
  const TimeNs last =
      std::max(nodes.third.arrivals().back().time, nodes.fourth.arrivals().back().time);
  EXPECT_GE(last, 10'000 + 1'000 + 161'551);
  EXPECT_LE(last, 10'000 + 1'000 + 161'554);
  EXPECT_EQ(nodes.fourth.text(kAccepted), counting_text(100'000));
}

TEST(Switch, AClosingWireStaysBehindItsBytesInTheUplink) {
  FourNodes nodes(switched_link(1));
  nodes.second.connect(nodes.fourth, kA);
  nodes.first.connect(nodes.third, kA);
  nodes.second.send_at(10'000, kA, std::string(5'000, 'y'));
  nodes.first.send_at(10'001, kA, std::string(100, 'x'));
  nodes.world.at(10'200, nodes.first.node(), [&] { nodes.first.wire(kA).close(); });
  nodes.world.run(never);
  EXPECT_THAT(nodes.third.arrivals(), ElementsAre(Arrival{16'100, kAccepted, 100}));
  EXPECT_EQ(nodes.third.failure(kAccepted).code(), StatusCode::PeerLost);
  EXPECT_EQ(nodes.third.failure_time(kAccepted), 16'100);
}

}  // namespace
}  // namespace mccl::sim
