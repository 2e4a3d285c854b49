// Nodes that stop and go on, connections that are reset, and silence that counts as loss.
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

std::string write_failure(Wire& wire) {
  return write_text(wire, "x").status().to_string();
}

// 1 s, after which peers of vanished nodes give up.
WorldOptions watched_link() {
  WorldOptions options = plain_link();
  options.peer_timeout_ns = kNsPerSecond;
  return options;
}

TEST(Pause, TheNodeMakesNoStepUntilItIsResumedAndThenReadsEverything) {
  World world(plain_link());
  TalkingNode paused(world), peer(world);
  peer.connect(paused, kA);
  world.at(10'000, peer.node(), [&] { world.pause(paused.node()); });
  peer.send_at(20'000, kA, "abc");
  peer.send_at(30'000, kA, "def");
  world.at(90'000, peer.node(), [&] { world.resume(paused.node()); });
  world.run(never, 80'000);
  EXPECT_EQ(paused.text(kAccepted), "");
  world.run(never);
  EXPECT_THAT(paused.arrivals(), ElementsAre(Arrival{90'000, kAccepted, 6}));
  EXPECT_EQ(paused.text(kAccepted), "abcdef");
}

TEST(Pause, ItsKernelStillSendsWhatWasWritten) {
  WorldOptions options = plain_link();
  options.segment_bytes_max = 100;
  World world(options);
  TalkingNode paused(world), peer(world);
  paused.connect(peer, kA);
  paused.send_at(10'000, kA, std::string(1'000, 'x'));
  world.at(10'050, peer.node(), [&] { world.pause(paused.node()); });
  world.run(never);
  EXPECT_EQ(peer.text(kAccepted), std::string(1'000, 'x'));
  EXPECT_TRUE(peer.failure(kAccepted).is_ok());
}

TEST(Pause, ItsKernelTakesBytesUntilTheQueueIsFullAndTheRestWaits) {
  WorldOptions options = plain_link();
  options.queue_bytes_max = 10'000;
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode paused(world), peer(world);
  peer.connect(paused, kA);
  world.at(10'000, peer.node(), [&] { world.pause(paused.node()); });
  const std::string text = counting_text(100'000);
  peer.send_at(20'000, kA, text);
  world.run(never);
  EXPECT_EQ(world.bytes_sent(peer.node()), 12'000u);  // two segments are under way as it fills up
  EXPECT_EQ(paused.text(kAccepted), "");
  world.at(1'000'000, peer.node(), [&] { world.resume(paused.node()); });
  world.run(never);
  EXPECT_EQ(paused.text(kAccepted), text);
}

TEST(Pause, ConnectionsAreMadeAndAcceptedLater) {
  World world(plain_link());
  TalkingNode paused(world), peer(world);
  world.pause(paused.node());
  peer.connect(paused, kA);
  peer.send_at(10'000, kA, "hello");
  world.run(never);
  EXPECT_EQ(peer.writable_time(kA), 2'000);
  EXPECT_FALSE(paused.has_wire(kAccepted));
  world.at(50'000, peer.node(), [&] { world.resume(paused.node()); });
  world.run(never);
  EXPECT_EQ(paused.text(kAccepted), "hello");
}

TEST(Pause, ActionsOfTheNodeRunLateInTheirOrder) {
  World world(plain_link());
  TalkingNode paused(world), peer(world);
  world.pause(paused.node());
  std::vector<std::pair<int, TimeNs>> ran;
  for (const int number : {1, 2, 3}) {
    world.at(number * 10'000, paused.node(),
             [&, number] { ran.emplace_back(number, world.clock().now()); });
  }
  world.at(25'000, peer.node(), [&] { world.resume(paused.node()); });
  world.run(never);
  EXPECT_THAT(ran, ElementsAre(std::pair{1, 25'000}, std::pair{2, 25'000}, std::pair{3, 30'000}));
}

TEST(Pause, APausedNodeThatIsKilledStaysDead) {
  World world(plain_link());
  TalkingNode victim(world), peer(world);
  peer.connect(victim, kA);
  world.run(never);
  world.pause(victim.node());
  const int steps = victim.step_count();
  bool acted = false;
  world.at(10'000, victim.node(), [&] { acted = true; });
  world.at(20'000, peer.node(), [&] { world.kill(victim.node()); });
  world.at(30'000, peer.node(), [&] { world.resume(victim.node()); });
  world.run(never);
  EXPECT_EQ(victim.step_count(), steps);
  EXPECT_FALSE(acted);
  EXPECT_EQ(peer.failure_time(kA), 21'000);
}

TEST(Pause, PeersDoNotTakeItForVanished) {
  World world(watched_link());
  TalkingNode paused(world), peer(world);
  peer.connect(paused, kA);
  world.at(10'000, peer.node(), [&] { world.pause(paused.node()); });
  peer.send_at(20'000, kA, std::string(20 << 20, 'x'));
  Status late;
  world.at(60 * kNsPerSecond, peer.node(),
           [&] { late = peer.wire(kA).check_peer(world.clock().now()); });
  world.run(never);
  EXPECT_EQ(late.to_string(), "ok");
  EXPECT_EQ(peer.failure(kA).to_string(), "ok");
}

TEST(Reset, BothEndsReadWhatHadArrivedAndThenPeerLost) {
  World world(plain_link());
  TalkingNode near(world), far(world);
  near.connect(far, kA);
  near.send_at(10'000, kA, "abc");
  near.send_at(11'500, kA, "lost in the air");
  far.stop_reading();
  world.at(12'000, near.node(), [&] { world.reset(far.node(), near.node()); });
  far.start_reading_at(20'000);
  world.run(never);
  EXPECT_EQ(far.text(kAccepted), "abc");
  EXPECT_EQ(near.failure(kA).to_string(),
            "peer lost: the connection of sim://0 and sim://1 was reset");
  EXPECT_EQ(near.failure_time(kA), 12'000);
  EXPECT_EQ(far.failure(kAccepted).to_string(),
            "peer lost: the connection of sim://1 and sim://0 was reset");
  EXPECT_EQ(write_failure(near.wire(kA)),
            "peer lost: the connection of sim://0 and sim://1 was reset");
}

TEST(Reset, EveryConnectionOfTheTwoAndNoOther) {
  World world(plain_link());
  TalkingNode near(world), far(world), other(world);
  near.connect(far, kA);
  far.connect(near, kB);
  other.connect(near, kA);
  world.at(10'000, other.node(), [&] { world.reset(near.node(), far.node()); });
  other.send_at(20'000, kA, "still here");
  world.run(never);
  EXPECT_EQ(near.failure_time(kA), 10'000);
  EXPECT_EQ(far.failure_time(kB), 10'000);
  EXPECT_EQ(other.failure(kA).to_string(), "ok");
  EXPECT_EQ(near.text(kAccepted) + near.text(kAccepted + 1), "still here");
}

TEST(Reset, AConnectionThatIsBeingMadeFailsAndANewOneIsMade) {
  World world(plain_link());
  TalkingNode near(world), far(world);
  near.connect(far, kA);
  world.at(500, near.node(), [&] { world.reset(near.node(), far.node()); });
  world.at(5'000, near.node(), [&] { near.connect(far, kB); });
  near.send_at(10'000, kB, "again");
  world.run(never);
  EXPECT_EQ(near.failure(kA).code(), StatusCode::PeerLost);
  EXPECT_EQ(near.failure_time(kA), 500);
  EXPECT_EQ(far.text(kAccepted), "again");
  EXPECT_FALSE(far.has_wire(kAccepted + 1));
}

TEST(Reset, AConnectionThatWaitsToBeAcceptedComesBroken) {
  World world(plain_link());
  TalkingNode near(world), far(world);
  world.pause(far.node());
  near.connect(far, kA);
  world.at(10'000, near.node(), [&] { world.reset(near.node(), far.node()); });
  world.at(20'000, near.node(), [&] { world.resume(far.node()); });
  world.run(never);
  EXPECT_EQ(far.failure(kAccepted).code(), StatusCode::PeerLost);
  EXPECT_EQ(far.failure_time(kAccepted), 20'000);
}

TEST(Reset, ClosingAResetWireTellsThePeerNothingMore) {
  World world(plain_link());
  TalkingNode near(world), far(world);
  near.connect(far, kA);
  world.at(10'000, near.node(), [&] {
    world.reset(near.node(), far.node());
    near.drop_wire(kA);
  });
  world.run(never);
  EXPECT_EQ(far.failure_time(kAccepted), 10'000);
  EXPECT_EQ(world.clock().now(), 10'000);
}

TEST(Silence, AnIdleWireFailsByItselfATimeoutAfterTheLastWordCouldArrive) {
  World world(watched_link());
  TalkingNode victim(world), peer(world);
  peer.connect(victim, kA);
  peer.send_at(5'000, kA, "answered");
  world.at(10'000, peer.node(), [&] { world.vanish(victim.node()); });
  world.run(never);
  EXPECT_EQ(peer.failure(kA).to_string(), "peer lost: no answer from sim://0 for 1.0 s");
  EXPECT_EQ(peer.failure_time(kA), 1'000'011'000);
  EXPECT_EQ(write_failure(peer.wire(kA)), "peer lost: no answer from sim://0 for 1.0 s");
}

TEST(Silence, WithBytesUnansweredItTakesAQuestion) {
  World world(watched_link());
  TalkingNode victim(world), peer(world);
  peer.connect(victim, kA);
  world.at(10'000, peer.node(), [&] { world.vanish(victim.node()); });
  peer.send_at(20'000, kA, "unanswered");
  std::vector<std::string> answers;
  for (const TimeNs time : {kNsPerSecond, kNsPerSecond + 11'001}) {
    world.at(time, peer.node(),
             [&] { answers.push_back(peer.wire(kA).check_peer(world.clock().now()).to_string()); });
  }
  world.run(never);
  EXPECT_THAT(answers, ElementsAre("ok", "peer lost: no answer from sim://0 for 1.0 s"));
  EXPECT_EQ(peer.failure(kA).to_string(), "ok") << "nothing was reported";
  EXPECT_EQ(write_failure(peer.wire(kA)), "peer lost: no answer from sim://0 for 1.0 s");
}

TEST(Silence, AConnectionThatIsNeverMadeTakesAQuestion) {
  World world(watched_link());
  TalkingNode victim(world), peer(world);
  world.vanish(victim.node());
  peer.connect(victim, kA);
  std::vector<std::string> answers;
  for (const TimeNs time : {kNsPerSecond - 1, kNsPerSecond + 1}) {
    world.at(time, peer.node(),
             [&] { answers.push_back(peer.wire(kA).check_peer(world.clock().now()).to_string()); });
  }
  world.run(never);
  EXPECT_THAT(answers, ElementsAre("ok", "peer lost: no answer from sim://0 for 1.0 s"));
  EXPECT_EQ(peer.failure(kA).to_string(), "ok") << "nothing was reported";
}

TEST(Silence, NothingIsNoticedOfAKilledOrAnAnsweringPeer) {
  World world(watched_link());
  TalkingNode victim(world), sound(world), peer(world);
  peer.connect(victim, kA);
  peer.connect(sound, kB);
  world.at(10'000, peer.node(), [&] { world.kill(victim.node()); });
  world.run(never);
  for (const uint64_t token : {kA, kB}) {
    EXPECT_EQ(peer.wire(token).check_peer(5 * kNsPerSecond).to_string(), "ok");
  }
  EXPECT_EQ(world.clock().now(), 11'000);
}

// The moments differ with the latency that is drawn, and repeat with the seed.
TEST(Silence, ComesAtMomentsThatASeedRepeats) {
  const auto moments = [](uint64_t seed) {
    WorldOptions options = watched_link();
    options.latency_jitter = 5;
    options.seed = seed;
    World world(options);
    TalkingNode victim(world), one(world), two(world);
    one.connect(victim, kA);
    two.connect(victim, kA);
    world.at(20'000, one.node(), [&] { world.vanish(victim.node()); });
    world.run(never);
    return std::pair{one.failure_time(kA), two.failure_time(kA)};
  };
  EXPECT_EQ(moments(1), moments(1));
  EXPECT_NE(moments(1), moments(2));
  EXPECT_NE(moments(1).first, moments(1).second);
}

}  // namespace
}  // namespace mccl::sim
