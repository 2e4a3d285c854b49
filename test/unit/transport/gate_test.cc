// How two processes come to one connection, whoever begins, and what strangers cannot do.
#include "transport/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "link_pair.h"

namespace mccl {
namespace {

// Bytes by hand on a connection to `process`.
struct Stranger {
  Stranger(sim::World& all, const Process& process)
      : world(all),
        node(all.add_node([] {})),
        wire(all.wires(node).connect(process.address().address, 1).value()) {
    run();
  }
  template <typename Value>
  void send(const Value& value, size_t bytes = sizeof(Value)) {
    Value copy = value;
    const iovec piece{&copy, bytes};
    ASSERT_EQ(wire->write({&piece, 1}).value(), bytes);
    run();
  }
  bool is_closed() {
    Answer answer;
    const iovec piece{&answer, sizeof(answer)};
    for (;;) {
      const Result<size_t> got = wire->read({&piece, 1});
      if (!got.is_ok()) return true;
      if (got.value() == 0) return false;
    }
  }
  void run() {
    world.run([] { return false; });
  }

  sim::World& world;
  int node;
  std::unique_ptr<Wire> wire;
};

struct Pair {
  explicit Pair(const std::string& right_secret = {},
                const sim::WorldOptions& options = {.latency_ns = 1'000})
      : world(options), left(world, 1), right(world, 2, right_secret) {}

  void run() {
    world.wires(left.node()).wake();
    world.wires(right.node()).wake();
    world.run([] { return false; });
  }
  // Both send a message before, and one after, there is a connection.
  void expect_one_link() {
    std::string there = "there", back = "back";
    SendStream& out = left.link_to(right).send_stream(kCommunicator, kChannel);
    SendStream& in = right.link_to(left).send_stream(kCommunicator, kChannel);
    out.add_owner(&owner, 0);
    in.add_owner(&owner, 0);
    post_bytes(out, there);
    post_bytes(in, back);
    run();
    EXPECT_EQ(left.failure.to_string(), "ok");
    EXPECT_EQ(right.failure.to_string(), "ok");
    RecvStream& out_end = right.link_to(left).recv_stream(kCommunicator, kChannel);
    RecvStream& in_end = left.link_to(right).recv_stream(kCommunicator, kChannel);
    ASSERT_TRUE(out_end.has_message());
    ASSERT_TRUE(in_end.has_message());
    EXPECT_EQ(text_of(out_end.take(false)), "there");
    EXPECT_EQ(text_of(in_end.take(false)), "back");
    run();
    EXPECT_EQ(left.link_to(right).bytes_written(), right.link_to(left).bytes_read());
    EXPECT_EQ(right.link_to(left).bytes_written(), left.link_to(right).bytes_read());
  }

  CountingOwner owner;  // before the links, whose streams name it
  sim::World world;
  Process left;
  Process right;
};

TEST(Gate, TheSmallerIdConnectsUnlessSomebodySaysOtherwise) {
  Pair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address()).is_ok());
  pair.run();
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_TRUE(pair.right.link_to(pair.left).has_wire());
  pair.expect_one_link();
}

TEST(Gate, TheLargerIdConnectsWhenToldTo) {
  Pair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  pair.expect_one_link();
}

TEST(Gate, TwoThatConnectAtOnceGetOneLink) {
  Pair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address(), Initiative::Ours).is_ok());
  pair.expect_one_link();
}

TEST(Gate, ASecondCallBeginsNoSecondConnection) {
  Pair pair;
  for (int call = 0; call < 2; ++call)
    ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.expect_one_link();
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  pair.run();
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  EXPECT_EQ(pair.right.failure.to_string(), "ok");
}

TEST(Gate, TheSmallerIdTakesUpTheOtherConnectionWhenItsOwnFails) {
  Pair pair;
  PeerAddress unreachable = pair.right.address();
  unreachable.address = "sim://99";
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  // Refused at 3'500; the other one's hello has come at 3'000.
  pair.world.at(1'500, pair.left.node(),
                [&] { ASSERT_TRUE(pair.left.transport().connect(unreachable).is_ok()); });
  pair.world.run([] { return false; }, 3'200);
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire()) << "parked, so not answered";
  pair.expect_one_link();
}

TEST(Gate, TheLargerIdForgetsThatItsOwnFailedWhenTheOtherOneCompletes) {
  // Two connections keep no order: the close of the one may come before the proof of the other.
  sim::World world({.latency_ns = 1'000});
  Process process(world, 2);
  Stranger peer(world, process);  // plays process 1
  ASSERT_TRUE(process.transport()
                  .connect({1, 10, world.wires(peer.node).address()}, Initiative::Ours)
                  .is_ok());
  peer.run();
  std::unique_ptr<Wire> unwanted = world.wires(peer.node).accept(2);
  const Authenticator authenticator;
  ConnectorHandshake handshake(authenticator, Hello{.from = 1, .to = 2},
                               authenticator.make_key("", 20), "process 2");
  ASSERT_TRUE(handshake.advance(*peer.wire).is_ok());
  peer.run();
  unwanted->close();
  peer.run();
  EXPECT_EQ(process.failure.to_string(), "ok");
  ASSERT_TRUE(handshake.advance(*peer.wire).is_ok());
  handshake.confirm();
  ASSERT_TRUE(handshake.advance(*peer.wire).is_ok());
  peer.run();
  EXPECT_EQ(process.failure.to_string(), "ok");
  EXPECT_TRUE(process.transport().link(1).has_wire());
}

TEST(Gate, TheLargerIdFailsWhenNeitherConnectionCompletes) {
  sim::World world({.latency_ns = 1'000});
  Process process(world, 2);
  Stranger peer(world, process);
  ASSERT_TRUE(process.transport().connect({1, 10, "sim://99"}, Initiative::Ours).is_ok());
  peer.send(Hello{.from = 1, .to = 2});
  EXPECT_EQ(process.failure.to_string(), "ok");
  peer.wire->close();
  peer.run();
  EXPECT_EQ(process.failure.to_string(), "network: nobody listens at sim://99");
}

TEST(Gate, AConnectionThatFailsEndsTheLinkInWords) {
  Pair pair;
  PeerAddress unreachable = pair.right.address();
  unreachable.address = "sim://99";
  ASSERT_TRUE(pair.left.transport().connect(unreachable).is_ok());
  pair.run();
  EXPECT_EQ(pair.left.failure.to_string(), "network: nobody listens at sim://99");
}

TEST(Gate, AnotherSecretEndsTheLinkOfTheSideThatConnects) {
  Pair pair("another");
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_EQ(
      pair.left.failure.to_string(),
      "network: what listens at sim://1 could not prove itself: its MCCL_SECRET differs or it "
      "is of another job");
  EXPECT_EQ(pair.right.failure.to_string(), "ok");
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire());
}

TEST(Gate, WaitsWithoutLimitForAProcessThatIsStopped) {
  Pair pair;
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.world.pause(pair.right.node());
  pair.world.run([] { return false; }, 3600 * kNsPerSecond);
  pair.left.transport().expire(pair.world.clock().now(), false);
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  pair.world.resume(pair.right.node());
  pair.expect_one_link();
}

TEST(Gate, AHostThatDoesNotAnswerIsFoundWhileSomethingIsAwaited) {
  Pair pair({}, {.latency_ns = 1'000, .peer_timeout_ns = 10 * kNsPerSecond});
  pair.world.vanish(pair.right.node());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.world.run([] { return false; }, 11 * kNsPerSecond);
  EXPECT_EQ(pair.left.transport().expire(11 * kNsPerSecond, false), kNever);
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  EXPECT_EQ(pair.left.transport().expire(11 * kNsPerSecond, true), 12 * kNsPerSecond);
  EXPECT_EQ(pair.left.failure.code(), StatusCode::PeerLost);
}

TEST(Gate, AHostThatVanishesIsFoundWhileSomethingIsAwaited) {
  Pair pair({}, {.latency_ns = 1'000, .peer_timeout_ns = 10 * kNsPerSecond});
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_EQ(pair.left.transport().expire(kNsPerSecond, true), 2 * kNsPerSecond);
  pair.world.vanish(pair.right.node());
  pair.left.link_to(pair.right).send_leave(kCommunicator, Status::ok());
  pair.world.wires(pair.left.node()).wake();
  pair.world.run([] { return false; }, 20 * kNsPerSecond);
  EXPECT_EQ(pair.left.transport().expire(2 * kNsPerSecond - 1, true), 2 * kNsPerSecond)
      << "once a second is enough";
  pair.left.transport().read();
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  EXPECT_EQ(pair.left.transport().expire(20 * kNsPerSecond, false), 20 * kNsPerSecond)
      << "what was written last is not answered";
  pair.left.transport().read();
  EXPECT_EQ(pair.left.failure.code(), StatusCode::PeerLost);
}

TEST(Gate, WhatWaitsForOurConnectionIsDue) {
  Pair pair;
  pair.left.link_to(pair.right).send_leave(kCommunicator, Status::ok());
  EXPECT_FALSE(pair.left.transport().write(true));
  EXPECT_FALSE(pair.left.transport().has_due_output()) << "the peer may never connect";
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  EXPECT_TRUE(pair.left.transport().has_due_output());
  pair.run();
  EXPECT_FALSE(pair.left.transport().has_due_output());
  EXPECT_EQ(pair.right.leaves, (std::vector<std::string>{"77 ok"}));
}

TEST(Gate, AStrangerThatHasBegunToGreetHasFiveSeconds) {
  Pair pair;
  Stranger stranger(pair.world, pair.right);
  stranger.send(Hello{.from = 1, .to = 2}, 39);
  const TimeNs deadline = pair.right.transport().expire(pair.world.clock().now(), false);
  EXPECT_EQ(deadline, 5'000'001'000);  // it was accepted after one latency
  EXPECT_EQ(pair.right.transport().expire(deadline - 1, false), deadline);
  stranger.run();
  EXPECT_FALSE(stranger.is_closed());
  EXPECT_EQ(pair.right.transport().expire(deadline, false), kNever);
  stranger.run();
  EXPECT_TRUE(stranger.is_closed());
}

TEST(Gate, AStrangerThatSaysAPeersNameMakesNoLink) {
  Pair pair;
  Stranger stranger(pair.world, pair.right);
  stranger.send(Hello{.from = 1, .to = 2});
  stranger.send(ConnectorProof{});
  EXPECT_TRUE(stranger.is_closed());
  int links = 0;
  pair.right.transport().visit_links([&](Link&) { ++links; });
  EXPECT_EQ(links, 0);
}

TEST(Gate, SixtyFourStrangersAtATimeAndTheNextWhenOneIsGone) {
  Pair pair;
  std::vector<std::unique_ptr<Stranger>> silent;
  for (int count = 0; count < 64; ++count)
    silent.push_back(std::make_unique<Stranger>(pair.world, pair.right));
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_FALSE(pair.left.link_to(pair.right).has_wire());
  silent.front()->wire->close();
  pair.run();
  EXPECT_TRUE(pair.left.link_to(pair.right).has_wire());
  pair.expect_one_link();
}

TEST(Gate, ASilentStrangerIsToleratedUntilItsRoomIsNeeded) {
  // It may be a process that was stopped before it said a word.
  Pair pair;
  std::vector<std::unique_ptr<Stranger>> silent;
  const auto add = [&] { silent.push_back(std::make_unique<Stranger>(pair.world, pair.right)); };
  for (int count = 0; count < 63; ++count) add();
  EXPECT_EQ(pair.right.transport().expire(6 * kNsPerSecond, false), kNever);
  add();
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_FALSE(pair.left.link_to(pair.right).has_wire());
  const TimeNs deadline = pair.right.transport().expire(kNsPerSecond, false);
  EXPECT_EQ(deadline, 5'000'001'000);
  EXPECT_FALSE(silent[0]->is_closed());
  pair.right.transport().expire(deadline, false);
  pair.run();
  EXPECT_TRUE(silent[0]->is_closed()) << "the first that came";
  EXPECT_FALSE(silent[1]->is_closed());
  pair.expect_one_link();
}

TEST(Gate, AStrangerInThePlaceOfThePeerDoesNotStandInTheWay) {
  Pair pair;
  Stranger stranger(pair.world, pair.left);
  stranger.send(Hello{.from = 2, .to = 1});
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_TRUE(stranger.is_closed());
  pair.expect_one_link();
}

TEST(Gate, TheLargerIdSendsNoProofWhileAConnectionOfTheSmallerOneIsAnswered) {
  for (const bool does_ours_complete : {true, false}) {
    sim::World world({.latency_ns = 1'000});
    Process process(world, 2);
    Stranger peer(world, process);  // plays process 1
    const Authenticator authenticator;
    ASSERT_TRUE(process.transport()
                    .connect({1, 10, world.wires(peer.node).address()}, Initiative::Ours)
                    .is_ok());
    peer.run();
    std::unique_ptr<Wire> theirs = world.wires(peer.node).accept(2);
    ConnectorHandshake connector(authenticator, Hello{.from = 1, .to = 2},
                                 authenticator.make_key("", 20), "process 2");
    AcceptorHandshake acceptor(authenticator, 1, authenticator.make_key("", 10));
    ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    peer.run();
    ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    ASSERT_TRUE(connector.is_answered());
    ASSERT_EQ(acceptor.advance(*theirs), AcceptorHandshake::State::Greeted);
    acceptor.answer(Nonce{});
    acceptor.advance(*theirs);
    peer.run();
    EXPECT_EQ(acceptor.advance(*theirs), AcceptorHandshake::State::AwaitProof);
    EXPECT_FALSE(process.transport().link(1).has_wire());
    if (does_ours_complete) {
      connector.confirm();
      ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    } else {
      peer.wire->close();
    }
    peer.run();
    EXPECT_EQ(acceptor.advance(*theirs), does_ours_complete ? AcceptorHandshake::State::Refused
                                                            : AcceptorHandshake::State::Complete);
    EXPECT_TRUE(process.transport().link(1).has_wire());
    EXPECT_EQ(process.failure.to_string(), "ok");
  }
}

TEST(Gate, TheSmallerIdTakesNoProofWhileItsOwnConnectionMayComplete) {
  for (const bool does_own_complete : {true, false}) {
    sim::World world({.latency_ns = 1'000});
    Process process(world, 1);
    Stranger peer(world, process);  // plays process 2
    const Authenticator authenticator;
    ConnectorHandshake connector(authenticator, Hello{.from = 2, .to = 1},
                                 authenticator.make_key("", 10), "process 1");
    ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    peer.run();
    ASSERT_TRUE(process.transport().connect({2, 20, world.wires(peer.node).address()}).is_ok());
    peer.run();
    std::unique_ptr<Wire> theirs = world.wires(peer.node).accept(2);
    ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    ASSERT_TRUE(connector.is_answered());
    connector.confirm();
    ASSERT_TRUE(connector.advance(*peer.wire).is_ok());
    peer.send(FrameHeader{.kind = FrameKind::Leave, .communicator = 5});
    EXPECT_FALSE(process.transport().link(2).has_wire());
    AcceptorHandshake acceptor(authenticator, 2, authenticator.make_key("", 20));
    ASSERT_EQ(acceptor.advance(*theirs), AcceptorHandshake::State::Greeted);
    if (does_own_complete) {
      acceptor.answer(Nonce{});
      acceptor.advance(*theirs);
      peer.run();
      EXPECT_EQ(acceptor.advance(*theirs), AcceptorHandshake::State::Complete);
      EXPECT_TRUE(peer.is_closed());
    } else {
      theirs->close();
      peer.run();
      EXPECT_EQ(process.leaves, (std::vector<std::string>{"5 ok"})) << "nothing was lost";
    }
    EXPECT_TRUE(process.transport().link(2).has_wire());
    EXPECT_EQ(process.failure.to_string(), "ok");
  }
}

TEST(Gate, AParkedStrangerGoesWhenOurConnectionIsThere) {
  Pair pair;
  pair.world.pause(pair.right.node());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  Stranger first(pair.world, pair.left), second(pair.world, pair.left);
  first.send(Hello{.from = 2, .to = 1});
  second.send(Hello{.from = 2, .to = 1});
  EXPECT_FALSE(first.is_closed());
  EXPECT_TRUE(second.is_closed()) << "one is enough";
  EXPECT_EQ(pair.left.transport().expire(pair.world.clock().now(), false), kNever) << "no deadline";
  pair.world.resume(pair.right.node());
  pair.run();
  EXPECT_TRUE(first.is_closed());
  pair.expect_one_link();
}

}  // namespace
}  // namespace mccl
