// The two sides of the handshake against each other over the simulator's wires, one byte at a time,
// and against bytes that somebody else wrote.
#include "transport/handshake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "sim/world.h"

namespace mccl {
namespace {

using State = AcceptorHandshake::State;

constexpr uint64_t kConnector = 0x11;
constexpr uint64_t kAcceptor = 0x22;
constexpr uint64_t kToken = 0x2222;

std::string hex(const Mac& mac) {
  std::string text;
  for (const std::byte byte : mac) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

// Both ends of one connection, whose bytes arrive one by one.
struct Ends {
  Ends() : world({.latency_ns = 1'000, .segment_bytes_max = 1}) {
    const int left = world.add_node([] {});
    const int right = world.add_node([] {});
    connecting = world.wires(left).connect("sim://1", 1).value();
    run();
    accepted = world.wires(right).accept(2);
  }

  void run() {
    world.run([] { return false; });
  }
  template <typename Value>
  void write(Wire& wire, const Value& value, size_t bytes = sizeof(Value)) {
    const iovec piece{const_cast<Value*>(&value), bytes};
    ASSERT_EQ(wire.write({&piece, 1}).value(), bytes);
    run();
  }
  template <typename Value>
  Value read(Wire& wire) {
    run();
    Value value;
    std::memset(static_cast<void*>(&value), 0, sizeof(value));
    const iovec piece{&value, sizeof(value)};
    EXPECT_EQ(wire.read({&piece, 1}).value(), sizeof(value));
    return value;
  }

  sim::World world;
  std::unique_ptr<Wire> connecting;
  std::unique_ptr<Wire> accepted;
};

class HandshakeTest : public testing::Test {
 protected:
  ConnectorHandshake connector(const std::string& secret = "", uint64_t to = kAcceptor) {
    return {authenticator_, Hello{.from = kConnector, .to = to, .nonce = nonces_()},
            authenticator_.make_key(secret, kToken), "what listens at sim://1"};
  }
  AcceptorHandshake acceptor(const std::string& secret = "") {
    return {authenticator_, kAcceptor, authenticator_.make_key(secret, kToken)};
  }
  // Until the acceptor has answered, if it gets so far.
  void greet(ConnectorHandshake& from, AcceptorHandshake& to) {
    ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
    ends_.run();
    if (to.advance(*ends_.accepted) != State::Greeted) return;
    to.answer(nonces_());
    to.advance(*ends_.accepted);
    ends_.run();
  }

  Ends ends_;
  Authenticator authenticator_;
  NonceSource nonces_ = seeded_nonces(7);
};

TEST_F(HandshakeTest, AuthenticatesAsTheStandardSays) {
  // RFC 4231, cases 2 and 6.
  EXPECT_EQ(hex(authenticator_.authenticate("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(authenticator_.authenticate(std::string(131, '\xaa'),
                                      "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_F(HandshakeTest, TheKeyDependsOnSecretAndToken) {
  const Mac key = authenticator_.make_key("s", 5);
  EXPECT_EQ(key, authenticator_.make_key("s", 5));
  EXPECT_NE(key, authenticator_.make_key("t", 5));
  EXPECT_NE(key, authenticator_.make_key("s", 6));
  EXPECT_NE(key, authenticator_.make_key("", 5));
}

TEST_F(HandshakeTest, AProofDependsOnRoleKeyAndEveryByteOfBothHellos) {
  const Mac key = authenticator_.make_key("s", 5);
  const Hello hello{.from = 1, .to = 2}, answer{.from = 2, .to = 1};
  const Mac proof = authenticator_.prove_connector(key, hello, answer);
  EXPECT_NE(proof, authenticator_.prove_acceptor(key, hello, answer));
  EXPECT_NE(proof, authenticator_.prove_connector(key, answer, hello));
  EXPECT_NE(proof, authenticator_.prove_connector(Mac{}, hello, answer));
  for (size_t index = 0; index < sizeof(Hello); ++index) {
    Hello changed = hello;
    reinterpret_cast<uint8_t*>(&changed)[index] ^= 1;
    EXPECT_NE(proof, authenticator_.prove_connector(key, changed, answer)) << index;
    changed = answer;
    reinterpret_cast<uint8_t*>(&changed)[index] ^= 1;
    EXPECT_NE(proof, authenticator_.prove_connector(key, hello, changed)) << index;
  }
}

TEST_F(HandshakeTest, NoncesDiffer) {
  NonceSource random = random_nonces();
  EXPECT_NE(random(), random());
  NonceSource seeded = seeded_nonces(3), again = seeded_nonces(3);
  const Nonce first = seeded();
  EXPECT_EQ(first, again());
  EXPECT_NE(first, seeded());
}

TEST_F(HandshakeTest, CompletesOnBothSidesWithTheSameSecret) {
  ConnectorHandshake from = connector("secret");
  AcceptorHandshake to = acceptor("secret");
  greet(from, to);
  EXPECT_EQ(to.peer_process(), kConnector);
  ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
  EXPECT_TRUE(from.is_answered());
  EXPECT_FALSE(from.is_complete());
  from.confirm();
  ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
  EXPECT_TRUE(from.is_complete());
  EXPECT_EQ(to.advance(*ends_.accepted), State::AwaitProof);
  ends_.run();
  EXPECT_EQ(to.advance(*ends_.accepted), State::Complete);
}

TEST_F(HandshakeTest, LeavesWhatFollowsTheProofInTheWire) {
  ConnectorHandshake from = connector();
  AcceptorHandshake to = acceptor();
  greet(from, to);
  ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
  from.confirm();
  ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
  ends_.write(*ends_.connecting, uint64_t{0x1234});
  EXPECT_EQ(to.advance(*ends_.accepted), State::Complete);
  EXPECT_EQ(ends_.read<uint64_t>(*ends_.accepted), 0x1234u);
}

TEST_F(HandshakeTest, TheConnectorFindsAnotherSecretAndShowsNoProof) {
  ConnectorHandshake from = connector("one");
  AcceptorHandshake to = acceptor("two");
  greet(from, to);
  const Status status = from.advance(*ends_.connecting);
  EXPECT_EQ(status.to_string(),
            "network: what listens at sim://1 could not prove itself: its MCCL_SECRET differs or "
            "it is of another job");
  ends_.connecting->close();
  ends_.run();
  EXPECT_EQ(to.advance(*ends_.accepted), State::Refused);
  EXPECT_EQ(to.refusal(), Refusal::ClosedEarly);
  EXPECT_EQ(to.reason(),
            "it went when it saw our proof (sim://0 closed its connection to sim://1): its "
            "MCCL_SECRET differs or it is of another job");
}

TEST_F(HandshakeTest, TheAcceptorFindsAWrongProof) {
  ConnectorHandshake from = connector();
  AcceptorHandshake to = acceptor();
  greet(from, to);
  ends_.write(*ends_.connecting, ConnectorProof{});
  EXPECT_EQ(to.advance(*ends_.accepted), State::Refused);
  EXPECT_EQ(to.refusal(), Refusal::BadMac);
  EXPECT_EQ(to.reason(), "its proof is wrong: its MCCL_SECRET differs or it is of another job");
}

TEST_F(HandshakeTest, AHandshakeThatWasRecordedProvesNothing) {
  const Hello hello{.from = kConnector, .to = kAcceptor, .nonce = nonces_()};
  const Mac key = authenticator_.make_key("", kToken);
  ends_.write(*ends_.connecting, hello);
  AcceptorHandshake to = acceptor();
  ASSERT_EQ(to.advance(*ends_.accepted), State::Greeted);
  to.answer(nonces_());
  to.advance(*ends_.accepted);
  const Answer answer = ends_.read<Answer>(*ends_.connecting);
  const ConnectorProof proof{.mac = authenticator_.prove_connector(key, hello, answer.hello)};
  ends_.write(*ends_.connecting, proof);
  ASSERT_EQ(to.advance(*ends_.accepted), State::Complete);

  Ends replay;
  AcceptorHandshake second = acceptor();
  replay.write(*replay.connecting, hello);
  ASSERT_EQ(second.advance(*replay.accepted), State::Greeted);
  second.answer(nonces_());
  second.advance(*replay.accepted);
  replay.write(*replay.connecting, proof);
  EXPECT_EQ(second.advance(*replay.accepted), State::Refused);
  EXPECT_EQ(second.refusal(), Refusal::BadMac);

  // Nor does the acceptor's answer to another hello.
  Ends forged;
  ConnectorHandshake from = connector();
  ASSERT_TRUE(from.advance(*forged.connecting).is_ok());
  forged.write(*forged.accepted, answer);
  EXPECT_FALSE(from.advance(*forged.connecting).is_ok());
}

TEST_F(HandshakeTest, SaysWhichProcessIsNotThere) {
  ConnectorHandshake from = connector("", 0x33);
  AcceptorHandshake to = acceptor();
  greet(from, to);
  EXPECT_EQ(to.state(), State::Refused);
  EXPECT_EQ(to.refusal(), Refusal::WrongId);
  ends_.run();
  EXPECT_EQ(from.advance(*ends_.connecting).to_string(),
            "network: what listens at sim://1 is another process than the one that was looked for: "
            "that one has ended and its port was given away, or the store holds records of an "
            "earlier job");
}

TEST_F(HandshakeTest, SaysWhichVersionsDiffer) {
  AcceptorHandshake to = acceptor();
  ends_.write(*ends_.connecting, Hello{.version = 9}, 8);
  EXPECT_EQ(to.advance(*ends_.accepted), State::Refused);
  EXPECT_EQ(to.refusal(), Refusal::WrongVersion);
  EXPECT_EQ(to.reason(),
            "it speaks version 9 of the protocol, this process version 2: install the same version "
            "of mccl on every host");

  Ends other;
  ConnectorHandshake from = connector();
  ASSERT_TRUE(from.advance(*other.connecting).is_ok());
  other.write(*other.accepted, Hello{.version = 9}, 8);
  EXPECT_EQ(from.advance(*other.connecting).to_string(),
            "network: what listens at sim://1 speaks version 9 of the protocol, this process "
            "version 2: install the same version of mccl on every host");
}

TEST_F(HandshakeTest, TurnsAwayOtherProtocolsAtTheirFirstBytes) {
  AcceptorHandshake to = acceptor();
  EXPECT_FALSE(to.has_bytes());
  EXPECT_FALSE(to.is_half_read());
  ends_.write(*ends_.connecting, 'm');
  EXPECT_EQ(to.advance(*ends_.accepted), State::AwaitHello);
  EXPECT_TRUE(to.has_bytes());
  EXPECT_TRUE(to.is_half_read());
  ends_.write(*ends_.connecting, 'x');
  EXPECT_EQ(to.advance(*ends_.accepted), State::Refused);
  EXPECT_EQ(to.refusal(), Refusal::RandomBytes);
  EXPECT_EQ(to.reason(), "not mccl (first bytes 6d 78)");

  Ends other;
  ConnectorHandshake from = connector();
  ASSERT_TRUE(from.advance(*other.connecting).is_ok());
  other.write(*other.accepted, "HTTP/1.1 400");
  EXPECT_EQ(from.advance(*other.connecting).to_string(),
            "network: what listens at sim://1 is not mccl (first bytes 48 54 54 50 2f 31 2e 31): "
            "another program listens where a process of this job did");
}

TEST_F(HandshakeTest, TellsThatTheOtherSideWentBeforeItHadShownWhoItIs) {
  ConnectorHandshake from = connector();
  ASSERT_TRUE(from.advance(*ends_.connecting).is_ok());
  ends_.accepted->close();
  ends_.run();
  EXPECT_EQ(from.advance(*ends_.connecting).to_string(),
            "peer lost: sim://1 closed its connection to sim://0 before it had shown who it is: it "
            "runs another version of mccl, it is not mccl, or its process has just ended");
}

}  // namespace
}  // namespace mccl
