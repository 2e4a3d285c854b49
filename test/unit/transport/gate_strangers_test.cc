// What strangers cannot do, and how they are counted and told of.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gate_pair.h"

namespace mccl {
namespace {

TEST(Gate, AStrangerThatHasBegunToGreetHasFiveSeconds) {
  GatePair pair;
  HandWire stranger(pair.world, pair.right);
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
  GatePair pair;
  HandWire stranger(pair.world, pair.right);
  stranger.send(Hello{.from = 1, .to = 2});
  stranger.send(ConnectorProof{});
  EXPECT_TRUE(stranger.is_closed());
  int links = 0;
  pair.right.transport().visit_links([&](Link&) { ++links; });
  EXPECT_EQ(links, 0);
}

TEST(Gate, StrangersAreCountedAndEachAddressIsToldOnce) {
  GatePair pair;
  const auto count = [&](Refusal refusal) {
    return pair.right.transport().refusals().count(refusal);
  };
  for (int time = 0; time < 2; ++time) {
    HandWire silent(pair.world, pair.right);
    silent.wire->close();
    silent.run();
  }
  EXPECT_EQ(count(Refusal::ClosedEarly), 2u);
  EXPECT_EQ(pair.right.notices, std::vector<std::string>{}) << "a port scan, perhaps";

  HandWire other(pair.world, pair.right), version(pair.world, pair.right),
      id(pair.world, pair.right), proof(pair.world, pair.right), slow(pair.world, pair.right);
  other.send("GET / HTTP/1.1");
  version.send(Hello{.version = 1});
  id.send(Hello{.from = 1, .to = 3});
  proof.send(Hello{.from = 1, .to = 2});
  proof.send(ConnectorProof{});
  slow.send(Hello{}, 5);
  pair.right.transport().expire(6 * kNsPerSecond, false);
  for (const Refusal refusal : {Refusal::RandomBytes, Refusal::WrongVersion, Refusal::WrongId,
                                Refusal::BadMac, Refusal::TimedOut})
    EXPECT_EQ(count(refusal), 1u) << static_cast<int>(refusal);
  EXPECT_EQ(pair.right.transport().refusals().stranger_count(), 7u);
  EXPECT_EQ(
      pair.right.notices,
      (std::vector<std::string>{
          "refused a connection from sim://4: not mccl (first bytes 47 45 54 20 2f 20 48 54); "
          "more from there are counted and not told",
          "refused a connection from sim://5: it speaks version 1 of the protocol, this "
          "process version 2: install the same version of mccl on every host; more from "
          "there are counted and not told",
          "refused a connection from sim://6: it looks for another process: its job has ended "
          "here, or the store holds records of an earlier one; more from there are counted "
          "and not told",
          "refused a connection from sim://7: its proof is wrong: its MCCL_SECRET differs or "
          "it is of another job; more from there are counted and not told",
          "refused a connection from sim://8: it did not complete its greeting within 5 "
          "seconds; more from there are counted and not told"}));
}

TEST(Gate, AProofThatWasHeldBackIsWorthNothingOnAnotherConnection) {
  GatePair pair;
  const Authenticator authenticator;
  const Hello hello{.from = 1, .to = 2};
  ConnectorProof proof;
  for (const bool is_first : {true, false}) {
    HandWire stranger(pair.world, pair.right);
    stranger.send(hello);
    Answer answer;
    const iovec piece{&answer, sizeof answer};
    ASSERT_EQ(stranger.wire->read({&piece, 1}).value(), sizeof answer);
    if (is_first)
      proof.mac =
          authenticator.prove_connector(authenticator.make_key("", 20), hello, answer.hello);
    else
      stranger.send(proof);
  }
  EXPECT_EQ(pair.right.transport().refusals().count(Refusal::BadMac), 1u);
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire());
}

TEST(Gate, ADuplicateIsNoStranger) {
  GatePair pair;
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  HandWire replay(pair.world, pair.right);
  replay.send(Hello{.from = 1, .to = 2});
  EXPECT_TRUE(replay.is_closed());
  EXPECT_EQ(pair.right.transport().refusals().count(Refusal::Duplicate), 1u);
  EXPECT_EQ(pair.right.transport().refusals().stranger_count(), 0u);
  EXPECT_EQ(pair.right.notices, std::vector<std::string>{});
}

TEST(Gate, AStrangerWhoseHostVanishesMakesRoom) {
  GatePair pair({}, {.latency_ns = 1'000, .peer_timeout_ns = 10 * kNsPerSecond});
  pair.right.link_to(pair.left);
  HandWire stranger(pair.world, pair.right);
  const Hello hello{.from = 1, .to = 2};
  const iovec piece{const_cast<Hello*>(&hello), sizeof hello};
  ASSERT_EQ(stranger.wire->write({&piece, 1}).value(), sizeof hello);
  pair.world.run([&] { return pair.world.bytes_sent(pair.right.node()) > 0; });
  pair.world.vanish(stranger.node);  // with our answer on its way
  pair.world.run([] { return false; }, 20 * kNsPerSecond);
  pair.right.transport().expire(20 * kNsPerSecond, true);
  EXPECT_EQ(pair.right.notices,
            (std::vector<std::string>{"refused a connection from sim://2: its host does not answer "
                                      "any more; more from there are counted and not told"}));
}

TEST(Refusals, TellOfTwoHundredAndFiftySixAddressesAndThatThereAreMore) {
  std::vector<std::string> lines;
  Refusals refusals([&](const std::string& line) { lines.push_back(line); });
  for (int time = 0; time < 2; ++time)
    for (int host = 0; host < 300; ++host)
      refusals.note(Refusal::WrongId, true, "host" + std::to_string(host), "why");
  EXPECT_EQ(refusals.count(Refusal::WrongId), 600u);
  ASSERT_EQ(lines.size(), 257u);
  EXPECT_EQ(lines[255],
            "refused a connection from host255: why; more from there are counted and not told");
  EXPECT_EQ(lines[256],
            "refused a connection from host256: why; more from other addresses than the 256 named "
            "are counted and not told");
}

TEST(Gate, SixtyFourStrangersAtATimeAndTheNextWhenOneIsGone) {
  GatePair pair;
  std::vector<std::unique_ptr<HandWire>> silent;
  for (int count = 0; count < 64; ++count)
    silent.push_back(std::make_unique<HandWire>(pair.world, pair.right));
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
  GatePair pair;
  std::vector<std::unique_ptr<HandWire>> silent;
  const auto add = [&] { silent.push_back(std::make_unique<HandWire>(pair.world, pair.right)); };
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
  GatePair pair;
  HandWire stranger(pair.world, pair.left);
  stranger.send(Hello{.from = 2, .to = 1});
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  pair.run();
  EXPECT_TRUE(stranger.is_closed());
  pair.expect_one_link();
}

// The larger side sends no proof while it takes the stranger for its peer: five seconds, no more.
TEST(Gate, AStrangerWithTheNameOfTheSmallerIdDelaysUsForFiveSeconds) {
  GatePair pair;
  HandWire stranger(pair.world, pair.right);
  stranger.send(Hello{.from = 1, .to = 2});
  ASSERT_TRUE(pair.right.transport().connect(pair.left.address(), Initiative::Ours).is_ok());
  pair.run();
  EXPECT_FALSE(pair.right.link_to(pair.left).has_wire());
  const TimeNs deadline = pair.right.transport().expire(pair.world.clock().now(), false);
  EXPECT_EQ(deadline, 5'000'001'000);  // it was accepted after one latency
  pair.right.transport().expire(deadline, false);
  pair.run();
  EXPECT_TRUE(stranger.is_closed());
  EXPECT_TRUE(pair.right.link_to(pair.left).has_wire());
  pair.expect_one_link();
}

TEST(Gate, AParkedStrangerGoesWhenOurConnectionIsThere) {
  GatePair pair;
  pair.world.pause(pair.right.node());
  ASSERT_TRUE(pair.left.transport().connect(pair.right.address()).is_ok());
  HandWire first(pair.world, pair.left), second(pair.world, pair.left);
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
