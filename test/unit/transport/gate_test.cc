// How two processes come to one connection, whoever begins.
#include "transport/gate.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gate_pair.h"

namespace mccl {
namespace {

TEST(Gate, TheSmallerIdConnectsUnlessSomebodySaysOtherwise) {
  GatePair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address()).is_ok());
  pair.run();
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_TRUE(pair.right.link_to(pair.left).has_wire());
  pair.expect_one_link();
}

TEST(Gate, TheLargerIdConnectsWhenToldTo) {
  GatePair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  pair.expect_one_link();
}

TEST(Gate, TwoThatConnectAtOnceGetOneLink) {
  GatePair pair;
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address(), Initiative::Ours).is_ok());
  pair.expect_one_link();
}

TEST(Gate, ASecondCallBeginsNoSecondConnection) {
  GatePair pair;
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
  GatePair pair;
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
  HandWire peer(world, process);  // plays process 1
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
  HandWire peer(world, process);
  ASSERT_TRUE(process.transport().connect({1, 10, "sim://99"}, Initiative::Ours).is_ok());
  peer.send(Hello{.from = 1, .to = 2});
  EXPECT_EQ(process.failure.to_string(), "ok");
  peer.wire->close();
  peer.run();
  EXPECT_EQ(process.failure.to_string(), "network: nobody listens at sim://99");
}

TEST(Gate, AConnectionThatFailsEndsTheLinkInWords) {
  GatePair pair;
  PeerAddress unreachable = pair.right.address();
  unreachable.address = "sim://99";
  ASSERT_TRUE(pair.left.transport().connect(unreachable).is_ok());
  pair.run();
  EXPECT_EQ(pair.left.failure.to_string(), "network: nobody listens at sim://99");
}

TEST(Gate, AnotherSecretEndsTheLinkOfTheSideThatConnects) {
  GatePair pair("another");
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
  GatePair pair;
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.world.pause(pair.right.node());
  pair.world.run([] { return false; }, 3600 * kNsPerSecond);
  pair.left.transport().expire(pair.world.clock().now(), false);
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  pair.world.resume(pair.right.node());
  pair.expect_one_link();
}

TEST(Gate, AHostThatDoesNotAnswerIsFoundWhileSomethingIsAwaited) {
  GatePair pair({}, {.latency_ns = 1'000, .peer_timeout_ns = 10 * kNsPerSecond});
  pair.world.vanish(pair.right.node());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.world.run([] { return false; }, 11 * kNsPerSecond);
  EXPECT_EQ(pair.left.transport().expire(11 * kNsPerSecond, false), kNever);
  EXPECT_EQ(pair.left.failure.to_string(), "ok");
  EXPECT_EQ(pair.left.transport().expire(11 * kNsPerSecond, true), 12 * kNsPerSecond);
  EXPECT_EQ(pair.left.failure.code(), StatusCode::PeerLost);
}

TEST(Gate, AHostThatVanishesIsFoundWhileSomethingIsAwaited) {
  GatePair pair({}, {.latency_ns = 1'000, .peer_timeout_ns = 10 * kNsPerSecond});
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
  GatePair pair;
  pair.left.link_to(pair.right).send_leave(kCommunicator, Status::ok());
  EXPECT_FALSE(pair.left.transport().write(true));
  EXPECT_FALSE(pair.left.transport().has_due_output()) << "the peer may never connect";
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  EXPECT_TRUE(pair.left.transport().has_due_output());
  pair.run();
  EXPECT_FALSE(pair.left.transport().has_due_output());
  EXPECT_EQ(pair.right.leaves, (std::vector<std::string>{"77 ok"}));
}

TEST(Gate, TheLargerIdSendsNoProofWhileAConnectionOfTheSmallerOneIsAnswered) {
  for (const bool does_ours_complete : {true, false}) {
    sim::World world({.latency_ns = 1'000});
    Process process(world, 2);
    HandWire peer(world, process);  // plays process 1
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
    HandWire peer(world, process);  // plays process 2
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

}  // namespace
}  // namespace mccl
