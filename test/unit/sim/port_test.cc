#include "sim/port.h"

#include <gtest/gtest.h>

namespace mccl::sim {
namespace {

TEST(Port, RoundsTheEndOfASegmentUpToAWholeNanosecond) {
  Port port(3'000'000'000);
  EXPECT_EQ(port.pass(100, 9), 103);
  EXPECT_EQ(port.pass(200, 10), 204);
}

TEST(Port, KeepsTheFractionBetweenSegmentsThatFollowEachOther) {
  Port port(3'000'000'000);
  EXPECT_EQ(port.pass(0, 1), 1);
  EXPECT_EQ(port.pass(1, 1), 1);
  EXPECT_EQ(port.pass(1, 1), 1);
  EXPECT_EQ(port.pass(1, 1), 2);
}

TEST(Port, ForgetsTheFractionWhenItWasIdle) {
  Port port(3'000'000'000);
  EXPECT_EQ(port.pass(0, 1), 1);
  EXPECT_EQ(port.pass(5, 3), 6);
}

TEST(Port, QueuesASegmentBehindTheOnesBeforeIt) {
  Port port(1'000'000'000);
  EXPECT_EQ(port.pass(0, 100), 100);
  EXPECT_EQ(port.pass(30, 50), 150);
  EXPECT_EQ(port.pass(40, 0), 150);
}

TEST(Port, IsExactForTheLargestSegment) {
  Port port(1'238'000'000);
  EXPECT_EQ(port.pass(0, Port::kSegmentBytesMax), 3'469'278'915);
}

}  // namespace
}  // namespace mccl::sim
