// What a link does besides its streams: it never stops reading, it ends communicators without
// touching their memory again, and it says what is wrong with bytes that are not ours.
#include "transport/link.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "link_pair.h"

namespace mccl {
namespace {

constexpr const char* kSuffix = "; the peer runs another version or is not mccl";

TEST(Link, ReadsWhileItsOwnWriteWouldBlock) {
  LinkPair pair({.latency_ns = 1'000, .queue_bytes_max = 64 * 1024});
  constexpr size_t kBytes = 1'000'000;
  CountingOwner owner;
  pair.send_end().add_owner(&owner, 0);
  pair.recv_end().add_owner(&owner, 0, 2, kBytes);
  SendStream& back = pair.right.link_to(pair.left).send_stream(kCommunicator, kChannel);
  RecvStream& back_end = pair.left.link_to(pair.right).recv_stream(kCommunicator, kChannel);
  back.add_owner(&owner, 0);
  back_end.add_owner(&owner, 0, 2, kBytes);
  pair.run();
  // The right side does not read, so that the left side's write blocks with bytes left.
  pair.right.is_reading = false;
  std::string there(kBytes, 't'), here(kBytes, 'h');
  post_bytes(pair.send_end(), there);
  pair.run();
  post_bytes(back, here);
  pair.run();

  ASSERT_TRUE(back_end.has_message());
  EXPECT_EQ(text_of(back_end.take(true)), here);
  EXPECT_FALSE(pair.recv_end().has_message());
  pair.right.is_reading = true;
  pair.run();
  EXPECT_EQ(text_of(pair.recv_end().take(true)), there);
}

TEST(Link, FreesTheMemoryOfAnEndedCommunicatorWithBytesUnderWay) {
  LinkPair pair({.latency_ns = 1'000, .queue_bytes_max = 64 * 1024, .reads_late = true});
  CountingOwner owner;
  pair.send_end().add_owner(&owner, 0);
  pair.recv_end().add_owner(&owner, 0, 2, kFramePayloadBytesMax);
  pair.run();
  std::string large(kFramePayloadBytesMax, 'e');
  post_bytes(pair.send_end(), large);
  pair.left.step();  // a part of the frame has left
  pair.left.link_to(pair.right).send_leave(kCommunicator, Status::ok());
  pair.left.link_to(pair.right).end_communicator(kCommunicator);
  const std::string expected = large;
  large.assign(large.size(), '!');  // the memory is the caller's again
  pair.run();

  ASSERT_TRUE(pair.recv_end().has_message());
  EXPECT_EQ(text_of(pair.recv_end().take(true)), expected);
  EXPECT_EQ(pair.right.leaves, (std::vector<std::string>{"77 ok"}));
}

TEST(Link, SkipsMessagesOfACommunicatorThatHasEndedHere) {
  LinkPair pair;
  CountingOwner owner;
  pair.right.link_to(pair.left).end_communicator(kCommunicator);
  pair.send_end().add_owner(&owner, 0);
  std::string text = "late";
  post_bytes(pair.send_end(), text);
  pair.run();
  EXPECT_TRUE(pair.right.heads.empty());
  EXPECT_TRUE(pair.right.failure.is_ok());
  // Another communicator's messages pass behind it.
  SendStream& other = pair.left.link_to(pair.right).send_stream(78, kChannel);
  other.add_owner(&owner, 0);
  post_bytes(other, text);
  pair.run();
  EXPECT_EQ(text_of(pair.right.link_to(pair.left).recv_stream(78, kChannel).take(false)), "late");
}

TEST(Link, CarriesTheReasonOfALeave) {
  LinkPair pair;
  pair.left.link_to(pair.right)
      .send_leave(kCommunicator, Status(StatusCode::Timeout, "waited for rank 9"));
  pair.run();
  EXPECT_EQ(pair.right.leaves, (std::vector<std::string>{"77 timeout: waited for rank 9"}));
}

// Of another communicator, whose data may keep the link busy for as long as it likes.
TEST(Link, SendsALeaveBehindTheDataOfItsOwnCommunicatorAlone) {
  LinkPair pair;
  CountingOwner owner;
  const size_t huge = 8 * kFramePayloadBytesMax;
  pair.send_end().add_owner(&owner, 0);
  pair.recv_end().add_owner(&owner, 0, 2, huge);
  pair.run();
  std::string large(huge, 'd');
  post_bytes(pair.send_end(), large);
  Link& link = pair.left.link_to(pair.right);
  link.send_leave(78, Status::ok());
  link.send_leave(kCommunicator, Status::ok());
  std::vector<std::string> order;
  pair.right.on_pass = [&] {
    for (const std::string& leave : std::exchange(pair.right.leaves, {})) order.push_back(leave);
    if (!pair.recv_end().has_message()) return;
    order.emplace_back("data");
    pair.recv_end().take(false);
  };
  pair.run();
  EXPECT_EQ(order, (std::vector<std::string>{"78 ok", "data", "77 ok"}));
}

// Bytes written by hand on a connection whose handshake was right.
struct Stranger {
  Stranger() : world({.latency_ns = 1'000}), node(world.add_node([] {})), process(world, 2) {
    wire = world.wires(node).connect(process.address().address, 1).value();
    const Authenticator authenticator;
    ConnectorHandshake handshake(authenticator, Hello{.from = 1, .to = 2},
                                 authenticator.make_key("", 20), "process 2");
    for (int round = 0; round < 2; ++round) {
      MCCL_CHECK(handshake.advance(*wire).is_ok());
      run();
    }
    MCCL_CHECK(handshake.advance(*wire).is_ok());
    handshake.confirm();
    MCCL_CHECK(handshake.advance(*wire).is_ok());
    run();
    MCCL_CHECK(handshake.is_complete());
  }

  template <typename Value>
  void send(const Value& value) {
    Value copy = value;
    const iovec piece{&copy, sizeof copy};
    ASSERT_EQ(wire->write({&piece, 1}).value(), sizeof copy);
    run();
  }
  void run() {
    world.run([] { return false; });
  }

  sim::World world;
  int node;
  Process process;
  std::unique_ptr<Wire> wire;
};

TEST(Protocol, RefusesAFrameWithoutTheMagic) {
  Stranger stranger;
  stranger.send(FrameHeader{.magic = 7, .communicator = 1});
  EXPECT_EQ(stranger.process.failure.message(),
            std::string("protocol error: a frame begins with 7 version 1") + kSuffix);
  EXPECT_EQ(stranger.process.failure.code(), StatusCode::Network);
}

TEST(Protocol, RefusesAFrameThatIsTooLong) {
  Stranger stranger;
  stranger.send(FrameHeader{.payload_bytes = 262'145});
  EXPECT_EQ(
      stranger.process.failure.message(),
      std::string("protocol error: a frame of 262145 bytes, at most 262144 are allowed") + kSuffix);
}

TEST(Protocol, RefusesAFrameOfUnknownKind) {
  Stranger stranger;
  stranger.send(FrameHeader{.kind = static_cast<FrameKind>(10)});
  EXPECT_EQ(stranger.process.failure.message(),
            std::string("protocol error: a frame of unknown kind 10") + kSuffix);
}

TEST(Protocol, RefusesAMessageWithoutCredit) {
  Stranger stranger;
  stranger.send(FrameHeader{.communicator = 1, .channel = 4, .message_bytes = 100'000});
  EXPECT_EQ(
      stranger.process.failure.message(),
      std::string("protocol error: a message of 100000 bytes on channel 4 for which no credit "
                  "was given") +
          kSuffix);
}

TEST(Protocol, RefusesTheThirdStandingMessage) {
  Stranger stranger;
  const FrameHeader empty{.communicator = 1, .channel = 4};
  stranger.send(empty);
  stranger.send(empty);
  EXPECT_TRUE(stranger.process.failure.is_ok());
  stranger.send(empty);
  EXPECT_EQ(stranger.process.failure.message(),
            std::string(
                "protocol error: a message of 0 bytes on channel 4 for which no credit was given") +
                kSuffix);
}

TEST(Protocol, RefusesMoreBytesThanTheMessageAnnounced) {
  Stranger stranger;
  stranger.send(FrameHeader{.payload_bytes = 9, .communicator = 1, .message_bytes = 8});
  EXPECT_EQ(stranger.process.failure.message(),
            std::string("protocol error: more bytes than the message announced") + kSuffix);
}

TEST(Protocol, RefusesCreditForMessagesThatWereNotSent) {
  Stranger stranger;
  stranger.process.transport().link(1).send_stream(5, 6);
  stranger.send(FrameHeader{.kind = FrameKind::Credits, .payload_bytes = 16});
  stranger.send(CreditEntry{.communicator = 5, .channel = 6, .taken = 1});
  EXPECT_EQ(stranger.process.failure.message(),
            std::string("protocol error: credit for messages that were not sent") + kSuffix);
}

TEST(Protocol, RefusesControlFramesOfOddLength) {
  Stranger stranger;
  stranger.send(FrameHeader{.kind = FrameKind::Grants, .payload_bytes = 16});
  stranger.send(CreditEntry{});
  EXPECT_EQ(stranger.process.failure.message(),
            std::string("protocol error: a grant frame of odd length") + kSuffix);
}

}  // namespace
}  // namespace mccl
