// Closed wires, killed nodes and vanished ones, as their peers see them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talking_node.h"

namespace mccl::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kA = 1;
constexpr uint64_t kB = 2;
constexpr uint64_t kAccepted = TalkingNode::kFirstAccepted;

StatusCode write_code(Wire& wire) {
  return write_text(wire, "x").status().code();
}

TEST(Close, ThePeerReadsWhatWasSentAndThenPeerLost) {
  World world(plain_link());
  TalkingNode closer(world), peer(world);
  closer.connect(peer, kA);
  closer.send_at(10'000, kA, "last words");
  world.at(10'000, closer.node(), [&] { closer.wire(kA).close(); });
  world.run(never);
  EXPECT_EQ(peer.text(kAccepted), "last words");
  EXPECT_EQ(peer.failure(kAccepted).to_string(),
            "peer lost: sim://0 closed its connection to sim://1");
  EXPECT_EQ(peer.failure_time(kAccepted), 11'010);
  EXPECT_EQ(write_code(peer.wire(kAccepted)), StatusCode::PeerLost);
}

TEST(Close, BytesThatWereNotSentAreLost) {
  WorldOptions options = plain_link();
  options.segment_bytes_max = 100;
  World world(options);
  TalkingNode closer(world), peer(world);
  closer.connect(peer, kA);
  closer.send_at(10'000, kA, std::string(1'000, 'x'));
  world.at(10'250, closer.node(), [&] { closer.wire(kA).close(); });
  world.run(never);
  EXPECT_EQ(peer.text(kAccepted), std::string(300, 'x'));
  EXPECT_EQ(peer.failure(kAccepted).code(), StatusCode::PeerLost);
}

TEST(Close, IsFinalHereIdempotentAndQuiet) {
  World world(plain_link());
  TalkingNode closer(world), peer(world);
  closer.connect(peer, kA);
  world.run(never);
  peer.send_at(10'000, kAccepted, "too late");
  world.at(10'500, closer.node(), [&] {
    closer.wire(kA).close();
    closer.wire(kA).close();
  });
  world.run(never);
  EXPECT_THAT(closer.arrivals(), IsEmpty());
  char byte;
  EXPECT_EQ(read_into(closer.wire(kA), &byte, 1).status().to_string(),
            "network: the wire to sim://1 is closed");
  EXPECT_EQ(write_code(closer.wire(kA)), StatusCode::Network);
  EXPECT_EQ(peer.failure_time(kAccepted), 11'500);
}

TEST(Close, DestroyingAWireClosesIt) {
  World world(plain_link());
  TalkingNode closer(world), peer(world);
  closer.connect(peer, kA);
  world.at(10'000, closer.node(), [&] { closer.drop_wire(kA); });
  world.run(never);
  EXPECT_EQ(peer.failure(kAccepted).code(), StatusCode::PeerLost);
  EXPECT_EQ(peer.failure_time(kAccepted), 11'000);
}

TEST(Close, AnEventThatWaitedForPollIsDropped) {
  World world(plain_link());
  world.add_node([] {});
  TalkingNode peer(world);
  auto wire = world.wires(0).connect("sim://1", kA).value();
  world.run(never);
  wire->close();
  std::vector<WireEvent> events;
  world.wires(0).poll(0, events);
  EXPECT_TRUE(events.empty());
}

TEST(Close, BeforeTheConnectionWasMadeTheServerSeesItComeAndGo) {
  World world(plain_link());
  TalkingNode closer(world), peer(world);
  closer.connect(peer, kA);
  closer.wire(kA).close();
  world.run(never);
  EXPECT_EQ(peer.failure(kAccepted).code(), StatusCode::PeerLost);
}

TEST(Connect, ToANodeThatDoesNotExistFailsAfterARoundTrip) {
  World world(plain_link());
  TalkingNode client(world);
  auto wire = client.context().connect("sim://5", kA).value();
  char byte;
  EXPECT_TRUE(read_into(*wire, &byte, 1).is_ok());
  world.run(never);
  EXPECT_EQ(world.clock().now(), 2'000);
  EXPECT_EQ(client.step_count(), 1);
  EXPECT_EQ(read_into(*wire, &byte, 1).status().to_string(), "network: nobody listens at sim://5");
  EXPECT_EQ(write_code(*wire), StatusCode::Network);
}

TEST(Kill, PeersReadWhatWasSentThenPeerLostAfterOneLatency) {
  World world(plain_link());
  TalkingNode victim(world), peer(world), other(world);
  victim.connect(peer, kA);
  other.connect(victim, kB);
  victim.send_at(10'000, kA, "abc");
  world.at(10'400, peer.node(), [&] { world.kill(victim.node()); });
  world.run(never);
  EXPECT_EQ(peer.text(kAccepted), "abc");
  EXPECT_EQ(peer.failure(kAccepted).code(), StatusCode::PeerLost);
  EXPECT_EQ(peer.failure_time(kAccepted), 11'400);
  EXPECT_EQ(other.failure(kB).code(), StatusCode::PeerLost);
  EXPECT_EQ(other.failure_time(kB), 11'400);
}

TEST(Kill, TheNodeMakesNoMoreStepsAndItsWiresAreClosed) {
  World world(plain_link());
  TalkingNode victim(world), peer(world);
  victim.connect(peer, kA);
  world.run(never);
  const int steps = victim.step_count();
  peer.send_at(10'000, kAccepted, "abc");
  bool acted = false;
  world.at(20'000, victim.node(), [&] { acted = true; });
  world.kill(victim.node());
  victim.context().wake();
  world.run(never);
  EXPECT_EQ(victim.step_count(), steps);
  EXPECT_FALSE(acted);
  EXPECT_EQ(write_code(victim.wire(kA)), StatusCode::Network);
}

TEST(Kill, ConnectingToTheNodeIsRefused) {
  World world(plain_link());
  TalkingNode victim(world), early(world), late(world);
  early.connect(victim, kA);
  world.at(500, early.node(), [&] { world.kill(victim.node()); });
  world.at(10'000, late.node(), [&] { late.connect(victim, kB); });
  world.run(never);
  EXPECT_EQ(early.failure(kA).to_string(), "network: nobody listens at sim://0");
  EXPECT_EQ(early.failure_time(kA), 2'000);
  EXPECT_EQ(late.failure(kB).code(), StatusCode::Network);
  EXPECT_EQ(late.failure_time(kB), 12'000);
}

TEST(Kill, NothingCanBePolledOrAcceptedAtTheNodeAfterwards) {
  for (const bool vanishes : {false, true}) {
    World world(plain_link());
    world.add_node([] {});
    TalkingNode peer(world);
    auto outgoing = world.wires(0).connect("sim://1", kA).value();
    auto incoming = world.wires(1).connect("sim://0", kB).value();
    world.run(never);
    vanishes ? world.vanish(0) : world.kill(0);
    std::vector<WireEvent> events;
    world.wires(0).poll(0, events);
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(world.wires(0).accept(7), nullptr);
  }
}

TEST(Kill, FromInsideTheNodesOwnStepEndsIt) {
  World world(plain_link());
  int steps = 0;
  const int node = world.add_node([&] {
    ++steps;
    world.wires(0).wake();
    world.kill(0);
  });
  world.wires(node).wake();
  EXPECT_FALSE(world.run(never));
  EXPECT_EQ(steps, 1);
}

TEST(Vanish, PeersHearNothingAndTheirQueuesFill) {
  WorldOptions options = plain_link();
  options.queue_bytes_max = 10'000;
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode victim(world), peer(world);
  victim.connect(peer, kA);
  victim.send_at(10'000, kA, "abc");
  world.at(10'400, peer.node(), [&] { world.vanish(victim.node()); });
  victim.send_at(10'500, kA, "not sent");
  peer.send_at(20'000, kAccepted, std::string(100'000, 'x'));
  world.run(never);
  EXPECT_THAT(peer.arrivals(), ElementsAre(Arrival{11'003, kAccepted, 3}));
  EXPECT_TRUE(peer.failure(kAccepted).is_ok());
  write_text(peer.wire(kAccepted), std::string(10'000, 'x')).value();
  EXPECT_EQ(write_text(peer.wire(kAccepted), "x").value(), 0u);
  EXPECT_GE(peer.unsent_bytes(kAccepted), 75'000u);
  EXPECT_EQ(victim.text(kA), "");
}

TEST(Vanish, ConnectingToTheNodeNeverEnds) {
  World world(plain_link());
  TalkingNode victim(world), peer(world);
  world.vanish(victim.node());
  peer.connect(victim, kA);
  world.run(never);
  EXPECT_EQ(write_text(peer.wire(kA), "x").value(), 0u);
  EXPECT_EQ(peer.step_count(), 0);
}

TEST(Vanish, DestroyingItsWiresTellsNobody) {
  World world(plain_link());
  TalkingNode victim(world), peer(world);
  victim.connect(peer, kA);
  world.run(never);
  world.vanish(victim.node());
  victim.drop_wire(kA);
  peer.send_at(10'000, kAccepted, std::string(20 << 20, 'x'));
  world.run(never);
  EXPECT_TRUE(peer.failure(kAccepted).is_ok());
  EXPECT_GT(peer.unsent_bytes(kAccepted), size_t{8} << 20);
}

TEST(WorldDeathTest, AWireThatOutlivesItsWorldAborts) {
  EXPECT_DEATH(
      {
        std::unique_ptr<Wire> wire;
        World world(plain_link());
        world.add_node([] {});
        wire = world.wires(0).connect("sim://0", kA).value();
      },
      "wire_count_");
}

}  // namespace
}  // namespace mccl::sim
