// When bytes arrive: literal times on a link with 1000 ns of latency and one byte per nanosecond.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "talking_node.h"

namespace mccl::sim {
namespace {

using testing::ElementsAre;

constexpr uint64_t kA = 1;
constexpr uint64_t kB = 2;
constexpr uint64_t kAccepted = TalkingNode::kFirstAccepted;

TEST(Arrival, OneSegmentTakesLatencyAndItsLengthOverTheRate) {
  World world(plain_link());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, std::string(500, 'x'));
  world.run(never);
  EXPECT_THAT(receiver.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
}

TEST(Arrival, SegmentsOfOneWriteFollowEachOtherWithoutAGap) {
  WorldOptions options = plain_link();
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(2'500));
  world.run(never);
  EXPECT_THAT(receiver.arrivals(),
              ElementsAre(Arrival{12'000, kAccepted, 1'000}, Arrival{13'000, kAccepted, 1'000},
                          Arrival{13'500, kAccepted, 500}));
  EXPECT_EQ(receiver.text(kAccepted), counting_text(2'500));
}

TEST(Arrival, TwoSendersShareTheIngressPortOfOneReceiver) {
  World world(plain_link());
  TalkingNode first(world), second(world), receiver(world);
  first.connect(receiver, kA);
  second.connect(receiver, kA);
  first.send_at(10'000, kA, std::string(500, 'x'));
  second.send_at(10'100, kA, std::string(300, 'y'));
  world.run(never);
  EXPECT_THAT(receiver.arrivals(),
              ElementsAre(Arrival{11'500, kAccepted, 500}, Arrival{11'800, kAccepted + 1, 300}));
}

TEST(Arrival, TwoWiresShareTheEgressPortOfOneSender) {
  World world(plain_link());
  TalkingNode sender(world), left(world), right(world);
  sender.connect(left, kA);
  sender.connect(right, kB);
  sender.send_at(10'000, kA, std::string(500, 'x'));
  sender.send_at(10'000, kB, std::string(300, 'y'));
  world.run(never);
  EXPECT_THAT(left.arrivals(), ElementsAre(Arrival{11'500, kAccepted, 500}));
  EXPECT_THAT(right.arrivals(), ElementsAre(Arrival{11'800, kAccepted, 300}));
}

TEST(Arrival, BothDirectionsOfANodeRunAtFullRate) {
  World world(plain_link());
  TalkingNode one(world), other(world);
  one.connect(other, kA);
  one.send_at(10'000, kA, std::string(5'000, 'x'));
  other.send_at(10'000, kAccepted, std::string(5'000, 'y'));
  world.run(never);
  EXPECT_THAT(one.arrivals(), ElementsAre(Arrival{16'000, kA, 5'000}));
  EXPECT_THAT(other.arrivals(), ElementsAre(Arrival{16'000, kAccepted, 5'000}));
}

TEST(Arrival, ASmallWriteWaitsForOneSegmentOfABusyWireNotForItsQueue) {
  WorldOptions options = plain_link();
  options.segment_bytes_max = 1'000;
  World world(options);
  TalkingNode sender(world), left(world), right(world);
  sender.connect(left, kA);
  sender.connect(right, kB);
  sender.send_at(10'000, kA, std::string(100'000, 'x'));
  sender.send_at(10'500, kB, std::string(10, 'y'));
  world.run(never);
  // In the port: x until 11'000, the second x until 12'000 (it was in line first), then y.
  EXPECT_THAT(right.arrivals(), ElementsAre(Arrival{13'010, kAccepted, 10}));
  EXPECT_EQ(left.arrivals().back().time, 111'010);
}

TEST(Arrival, ASegmentEndsWithItsWrite) {
  World world(plain_link());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, std::string(500, 'x'));
  sender.send_at(10'100, kA, std::string(300, 'y'));
  sender.send_at(10'200, kA, std::string(400, 'z'));
  world.run(never);
  EXPECT_THAT(receiver.arrivals(),
              ElementsAre(Arrival{11'500, kAccepted, 500}, Arrival{11'800, kAccepted, 300},
                          Arrival{12'200, kAccepted, 400}));
}

TEST(Arrival, PiecesThatAreNotCarriedTakeTheirTime) {
  WorldOptions options = plain_link();
  options.carried_bytes_max = 400;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, std::string(400, 'x'));
  sender.send_at(10'000, kA, std::string(500, 'y'));
  world.run(never);
  EXPECT_THAT(receiver.arrivals(),
              ElementsAre(Arrival{11'400, kAccepted, 400}, Arrival{11'900, kAccepted, 500}));
  EXPECT_EQ(receiver.text(kAccepted).substr(0, 400), std::string(400, 'x'));
}

TEST(Arrival, ManySmallSegmentsLoseNoBandwidthToRounding) {
  WorldOptions options = plain_link();
  options.bytes_per_second = 1'238'000'000;
  options.segment_bytes_max = 1;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(200'000));
  world.run(never);
  // 200'000 / 1.238 = 161'550.9; each port may round up once.
  EXPECT_GE(receiver.arrivals().back().time, 10'000 + 1'000 + 161'551);
  EXPECT_LE(receiver.arrivals().back().time, 10'000 + 1'000 + 161'552);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(200'000));
}

TEST(Arrival, SegmentsAreCutToRandomSizesWithinTheLimits) {
  WorldOptions options = plain_link();
  options.segment_bytes_min = 10;
  options.segment_bytes_max = 50;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, counting_text(30'000));
  world.run(never);
  EXPECT_EQ(receiver.text(kAccepted), counting_text(30'000));
  size_t min_bytes = SIZE_MAX, max_bytes = 0;
  for (size_t index = 0; index + 1 < receiver.arrivals().size(); ++index) {  // the last is a rest
    min_bytes = std::min(min_bytes, receiver.arrivals()[index].bytes);
    max_bytes = std::max(max_bytes, receiver.arrivals()[index].bytes);
  }
  EXPECT_EQ(min_bytes, 10u);
  EXPECT_EQ(max_bytes, 50u);
}

TEST(Arrival, JitterDelaysButNeverReordersWhatOneNodeSendsToAnother) {
  WorldOptions options = plain_link();
  options.latency_jitter = 4;
  World world(options);
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.connect(receiver, kB);
  for (int index = 0; index < 200; ++index) {
    sender.send_at(20'000 + 50 * index, index % 2 == 0 ? kA : kB, std::string(1, 'x'));
  }
  world.run(never);
  // Even and odd sends went over two wires. Once arrivals of one instant are added up, the wires
  // must have kept step with each other.
  size_t count_bytes[2] = {0, 0};
  TimeNs extra_max_ns = 0;
  for (const Arrival& arrival : receiver.arrivals()) {
    for (size_t byte = 0; byte < arrival.bytes; ++byte) {
      size_t& count = count_bytes[arrival.token - kAccepted];
      const TimeNs sent = 20'000 + 50 * static_cast<TimeNs>(2 * count + arrival.token - kAccepted);
      EXPECT_GE(arrival.time, sent + 1'001);
      EXPECT_LE(arrival.time, sent + 5'001 + 200);
      extra_max_ns = std::max(extra_max_ns, arrival.time - sent - 1'001);
      ++count;
    }
    EXPECT_LE(count_bytes[1], count_bytes[0] + 1);
    EXPECT_LE(count_bytes[0], count_bytes[1] + 1);
  }
  EXPECT_EQ(count_bytes[0], 100u);
  EXPECT_EQ(count_bytes[1], 100u);
  EXPECT_GT(extra_max_ns, 2'000);
}

TEST(Arrival, BytesSentAreCountedPerNodeAndInTotal) {
  World world(plain_link());
  TalkingNode sender(world), receiver(world);
  sender.connect(receiver, kA);
  sender.send_at(10'000, kA, std::string(500, 'x'));
  receiver.send_at(10'000, kAccepted, std::string(20, 'y'));
  world.run(never);
  EXPECT_EQ(world.bytes_sent(0), 500u);
  EXPECT_EQ(world.bytes_sent(1), 20u);
  EXPECT_EQ(world.bytes_sent(), 520u);
}

}  // namespace
}  // namespace mccl::sim
