// Connecting, the two event kinds, back-pressure, and the moment at which written bytes are
// captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "talking_node.h"

namespace mccl::sim {
namespace {

using testing::ElementsAre;

constexpr uint64_t kA = 1;
constexpr uint64_t kB = 2;
constexpr uint64_t kAccepted = TalkingNode::kFirstAccepted;

TEST(SimWire, ConnectingTakesOneLatencyEachWay) {
  World world(plain_link());
  TalkingNode client(world), server(world);
  client.connect(server, kA);
  world.run([&] { return server.has_wire(kAccepted); });
  EXPECT_EQ(world.clock().now(), 1'000);
  world.run([&] { return client.writable_time(kA) > 0; });
  EXPECT_EQ(client.writable_time(kA), 2'000);
}

TEST(SimWire, TakesNothingWhileTheConnectionIsBeingMade) {
  World world(plain_link());
  TalkingNode client(world), server(world);
  client.connect(server, kA);
  EXPECT_EQ(write_text(client.wire(kA), "abc").value(), 0u);
  char byte;
  EXPECT_EQ(read_into(client.wire(kA), &byte, 1).value(), 0u);
  client.send_at(0, kA, "abc");
  world.run(never);
  EXPECT_THAT(server.arrivals(), ElementsAre(Arrival{3'003, kAccepted, 3}));
}

TEST(SimWire, WhatArrivesBeforeAcceptIsReadableAfterIt) {
  World world(plain_link());
  TalkingNode client(world);
  std::vector<WireEvent> events;
  const int server = world.add_node([] {});
  WireContext& context = world.wires(server);
  auto wire = client.context().connect("sim://1", kA).value();
  world.run(never);
  EXPECT_EQ(write_text(*wire, "early").value(), 5u);
  world.run(never);
  context.poll(0, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].acceptable);
  const auto accepted = context.accept(7);
  ASSERT_NE(accepted, nullptr);
  EXPECT_EQ(context.accept(8), nullptr);
  events.clear();
  context.poll(0, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token, 7u);
  EXPECT_TRUE(events[0].readable);
  char bytes[8];
  EXPECT_EQ(read_into(*accepted, bytes, 8).value(), 5u);
  EXPECT_EQ(std::string(bytes, 5), "early");
}

TEST(SimWire, PollReportsEachEventOnce) {
  World world(plain_link());
  TalkingNode client(world), server(world);
  server.stop_reading();
  client.connect(server, kA);
  client.send_at(10'000, kA, "abc");
  world.run(never);
  std::vector<WireEvent> events;
  server.context().poll(-1, events);
  EXPECT_TRUE(events.empty());
}

TEST(SimWire, WritesAndReadsPiecesAcrossTheirBorders) {
  World world(plain_link());
  TalkingNode client(world), server(world);
  server.stop_reading();
  client.connect(server, kA);
  world.run(never);
  std::string first = "ab", second = "", third = "cdef";
  const std::array<iovec, 3> out = {iovec{first.data(), 2}, iovec{second.data(), 0},
                                    iovec{third.data(), 4}};
  EXPECT_EQ(client.wire(kA).write(out).value(), 6u);
  world.run(never);
  std::string head(1, ' '), middle(3, ' '), tail(9, ' ');
  const std::array<iovec, 3> in = {iovec{head.data(), 1}, iovec{middle.data(), 3},
                                   iovec{tail.data(), 9}};
  EXPECT_EQ(server.wire(kAccepted).read(in).value(), 6u);
  EXPECT_EQ(head + middle + tail.substr(0, 2), "abcdef");
  EXPECT_EQ(server.wire(kAccepted).read(in).value(), 0u);
}

TEST(SimWire, DescribesItsTwoEnds) {
  World world(plain_link());
  TalkingNode client(world), server(world);
  client.connect(server, kA);
  EXPECT_EQ(client.wire(kA).describe(), "sim://0 -> sim://1 over sim");
  EXPECT_EQ(client.context().address(), "sim://0");
}

TEST(SimWire, RejectsAddressesOfOtherKinds) {
  World world(plain_link());
  TalkingNode client(world);
  for (const char* address : {"tcp://127.0.0.1:1", "sim://", "sim://x", "sim://1x", "sim://-1",
                              "sim://4294967296", "1", ""}) {
    EXPECT_EQ(client.context().connect(address, kA).status().code(), StatusCode::InvalidArgument)
        << address;
  }
}

TEST(SimWire, TakesNoMoreThanItsQueueAndBecomesWritableWhenHalfIsGone) {
  WorldOptions options = plain_link();
  options.queue_bytes_max = 10'000;
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  world.run(never);
  const TimeNs start = world.clock().now();
  EXPECT_EQ(write_text(sender.wire(kA), std::string(20'000, 'x')).value(), 10'000u);
  // The first segment has left for the port already, so there is room for as much again.
  EXPECT_EQ(write_text(sender.wire(kA), std::string(20'000, 'x')).value(), 1'000u);
  EXPECT_EQ(write_text(sender.wire(kA), "x").value(), 0u);
  const TimeNs before = sender.writable_time(kA);
  world.run([&] { return sender.writable_time(kA) != before; });
  EXPECT_EQ(world.clock().now(), start + 5'000);
  EXPECT_EQ(write_text(sender.wire(kA), std::string(20'000, 'x')).value(), 5'000u);
}

TEST(SimWire, StopsWhileItsPeerDoesNotReadAndGoesOnWhenItDoes) {
  WorldOptions options = plain_link();
  options.queue_bytes_max = 10'000;
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode sender(world), receiver(world);
  receiver.stop_reading();
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(50'000));
  world.run(never);
  // 10'000 unread, what was in the air when that was seen, and a queue that is more than half full.
  EXPECT_GE(world.bytes_sent(0), 10'000u);
  EXPECT_LE(world.bytes_sent(0), 13'000u);
  EXPECT_GE(sender.unsent_bytes(kA), 50'000 - world.bytes_sent(0) - 10'000);
  EXPECT_LT(sender.unsent_bytes(kA), 50'000 - world.bytes_sent(0) - 5'000);
  EXPECT_EQ(receiver.text(kAccepted), "");
  receiver.start_reading_at(1'000'000);
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(50'000));
  EXPECT_EQ(sender.unsent_bytes(kA), 0u);
  // One latency until the sender knows, one until its first segment of 1000 bytes is there.
  EXPECT_EQ(receiver.arrivals()[1].time, 1'003'000);
}

TEST(SimWire, AStalledWireDoesNotHoldUpOthersOfItsNode) {
  WorldOptions options = plain_link();
  options.queue_bytes_max = 2'000;
  World world(options);
  TalkingNode sender(world), deaf(world), receiver(world);
  deaf.stop_reading();
  sender.connect(deaf, kA);
  sender.connect(receiver, kB);
  sender.send_at(10'000, kA, std::string(50'000, 'x'));
  sender.send_at(100'000, kB, "abc");
  world.run(never);
  EXPECT_THAT(receiver.arrivals(), ElementsAre(Arrival{101'003, kAccepted, 3}));
}

TEST(SimWire, CapturesWrittenBytesAtOnceByDefault) {
  World world(plain_link());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  world.run(never);
  std::string text = counting_text(200'000);
  EXPECT_EQ(write_text(sender.wire(kA), text).value(), 200'000u);
  std::fill(text.begin(), text.end(), '?');
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(200'000));
}

class ReadsLate : public testing::Test {
 protected:
  static WorldOptions options() {
    WorldOptions options = plain_link();
    options.reads_late = true;
    options.segment_bytes_max = 1'000;
    return options;
  }
};

TEST_F(ReadsLate, AWriteTakesOnlyWhatThePortSendsNow) {
  World world(options());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  world.run(never);
  const TimeNs start = world.clock().now();
  EXPECT_EQ(write_text(sender.wire(kA), std::string(5'000, 'x')).value(), 1'000u);
  EXPECT_EQ(write_text(sender.wire(kA), std::string(4'000, 'x')).value(), 0u);
  const TimeNs before = sender.writable_time(kA);
  world.run([&] { return sender.writable_time(kA) != before; });
  EXPECT_EQ(world.clock().now(), start + 1'000);
}

TEST_F(ReadsLate, BytesChangedBeforeTheyAreTakenArriveChanged) {
  World world(options());
  std::string memory(2'000, 'a');
  TalkingNode receiver(world);
  std::unique_ptr<Wire> wire;
  size_t sent_bytes = 0;
  const int sender = world.add_node([&] {
    std::vector<WireEvent> events;
    world.wires(1).poll(0, events);
    sent_bytes += write_text(*wire, std::string_view(memory).substr(sent_bytes)).value();
  });
  wire = world.wires(sender).connect("sim://0", kA).value();
  // 2'000: connected, the first half is taken. 3'000: the second is, unless somebody was faster.
  world.at(2'500, sender, [&] { memory.assign(2'000, 'b'); });
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), std::string(1'000, 'a') + std::string(1'000, 'b'));
}

TEST_F(ReadsLate, LosesNoTimeBetweenSegments) {
  World world(options());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(50'000));
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(50'000));
  EXPECT_EQ(receiver.arrivals().back().time, 61'000);
}

TEST_F(ReadsLate, WiresTakeTurns) {
  World world(options());
  TalkingNode sender(world), left(world), right(world);
  sender.connect(left, kA);
  sender.connect(right, kB);
  sender.send_at(10'000, kA, counting_text(50'000));
  sender.send_at(10'500, kB, "abc");
  world.run(never);
  EXPECT_THAT(right.arrivals(), ElementsAre(Arrival{13'003, kAccepted, 3}));
  EXPECT_EQ(left.text(kAccepted), counting_text(50'000));
}

TEST_F(ReadsLate, ATurnThatIsNotUsedGoesToTheNextWire) {
  World world(options());
  TalkingNode sender(world), left(world), right(world);
  sender.connect(left, kA);
  sender.connect(right, kB);
  world.run(never);
  const TimeNs start = world.clock().now();
  // Both are refused while the port is busy; the first one then has changed its mind.
  EXPECT_EQ(write_text(sender.wire(kA), std::string(1'000, 'x')).value(), 1'000u);
  EXPECT_EQ(write_text(sender.wire(kA), "never sent").value(), 0u);
  sender.send_at(start + 100, kB, "abc");
  world.run(never);
  EXPECT_EQ(left.text(kAccepted), std::string(1'000, 'x'));
  EXPECT_THAT(right.arrivals(), ElementsAre(Arrival{start + 2'003, kAccepted, 3}));
}

TEST_F(ReadsLate, KeepsBackPressureAndOrderOneByteAtATime) {
  WorldOptions small = options();
  small.segment_bytes_min = small.segment_bytes_max = 1;
  small.queue_bytes_max = 100;
  World world(small);
  TalkingNode sender(world), receiver(world);
  receiver.stop_reading();
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(5'000));
  receiver.start_reading_at(50'000);
  world.run(never, 49'000);
  EXPECT_EQ(receiver.text(kAccepted), "");
  EXPECT_GE(sender.unsent_bytes(kA), 5'000u - 1'200u);
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(5'000));
}

}  // namespace
}  // namespace mccl::sim
