// The loop and its promise: the same seed is the same run, to the bit.
#include "sim/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.h"
#include "talking_node.h"

namespace mccl::sim {
namespace {

using testing::ElementsAre;

TEST(World, StartsAtTimeZeroAndStopsWhenNothingIsLeft) {
  World world(plain_link());
  EXPECT_EQ(world.clock().now(), 0);
  EXPECT_FALSE(world.run(never));
  EXPECT_EQ(world.clock().now(), 0);
}

TEST(World, AsksDoneBeforeAnythingElse) {
  World world(plain_link());
  int steps = 0;
  world.add_node([&] { ++steps; });
  world.wires(0).wake();
  EXPECT_TRUE(world.run([] { return true; }));
  EXPECT_EQ(steps, 0);
}

TEST(World, RunsActionsInOrderOfTimeAndThenOfCall) {
  World world(plain_link());
  std::vector<int> order;
  world.add_node([] {});
  world.at(200, 0, [&] { order.push_back(3); });
  world.at(100, 0, [&] { order.push_back(1); });
  world.at(100, 0, [&] { order.push_back(2); });
  world.run(never);
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
  EXPECT_EQ(world.clock().now(), 200);
}

TEST(World, AnActionForThePastHappensNowAfterWhatIsDueNow) {
  World world(plain_link());
  std::vector<std::pair<TimeNs, int>> order;
  const auto note = [&](int number) { order.push_back({world.clock().now(), number}); };
  world.add_node([] {});
  world.at(500, 0, [&] { world.at(100, 0, [&] { note(2); }); });
  world.at(500, 0, [&] { note(1); });
  world.run(never);
  EXPECT_THAT(order, ElementsAre(std::pair(500, 1), std::pair(500, 2)));
}

TEST(World, StepsOncePerInstantInTheOrderInWhichEventsCame) {
  World world(plain_link());
  std::vector<std::pair<TimeNs, int>> steps;
  for (int node = 0; node < 3; ++node) {
    world.add_node([&, node] { steps.push_back({world.clock().now(), node}); });
  }
  for (const int node : {2, 0, 2, 1, 0}) world.at(100, node, [] {});
  world.at(150, 1, [] {});
  world.run(never);
  EXPECT_THAT(steps, ElementsAre(std::pair(100, 2), std::pair(100, 0), std::pair(100, 1),
                                 std::pair(150, 1)));
}

TEST(World, WakeGivesAnotherStepAtTheSameTimeEvenFromAnotherNode) {
  World world(plain_link());
  std::vector<int> order;
  world.add_node([&] {
    order.push_back(0);
    if (order.size() < 3) world.wires(0).wake();
    world.wires(1).wake();
  });
  world.add_node([&] { order.push_back(1); });
  world.at(100, 0, [] {});
  world.run(never);
  EXPECT_THAT(order, ElementsAre(0, 0, 1, 0, 1));
  EXPECT_EQ(world.clock().now(), 100);
}

TEST(World, StopsAfterTheStepThatMadeDoneTrueAndGoesOnFromThere) {
  World world(plain_link());
  int steps = 0;
  for (int node = 0; node < 4; ++node) {
    world.add_node([&] { ++steps; });
    world.wires(node).wake();
  }
  EXPECT_TRUE(world.run([&] { return steps == 2; }));
  EXPECT_EQ(steps, 2);
  EXPECT_FALSE(world.run(never));
  EXPECT_EQ(steps, 4);
}

TEST(World, RunsUpToAndIncludingTheDeadline) {
  World world(plain_link());
  std::vector<TimeNs> times;
  world.add_node([&] { times.push_back(world.clock().now()); });
  for (const TimeNs time : {100, 200, 300}) world.at(time, 0, [] {});
  EXPECT_FALSE(world.run(never, 250));
  EXPECT_THAT(times, ElementsAre(100, 200));
  EXPECT_EQ(world.clock().now(), 250);
  EXPECT_FALSE(world.run(never, 300));
  EXPECT_THAT(times, ElementsAre(100, 200, 300));
}

TEST(World, AStepMayAddNodes) {
  World world(plain_link());
  int steps = 0;
  world.add_node([&] {
    for (int added = 0; added < 100; ++added) {
      world.wires(world.add_node([&] { ++steps; })).wake();
    }
  });
  world.wires(0).wake();
  world.run(never);
  EXPECT_EQ(steps, 100);
}

TEST(WorldDeathTest, AnUnknownNodeAborts) {
  World world(plain_link());
  EXPECT_DEATH(world.wires(0), "check failed");
  EXPECT_DEATH(world.kill(-1), "check failed");
}

TEST(WorldDeathTest, RunInsideRunAborts) {
  World world(plain_link());
  world.add_node([&] { world.run(never); });
  world.wires(0).wake();
  EXPECT_DEATH(world.run(never), "is_running");
}

// Five nodes that talk at random; one is killed, one vanishes. Returns a hash over every arrival
// with its time, and over every failure.
uint64_t trace_of(uint64_t seed, bool reads_late, size_t segment_bytes_min) {
  WorldOptions options = plain_link();
  options.seed = seed;
  options.latency_jitter = 0.5;
  options.segment_bytes_min = segment_bytes_min;
  options.segment_bytes_max = 700;
  options.queue_bytes_max = 5'000;
  options.reads_late = reads_late;
  World world(options);
  std::vector<std::unique_ptr<TalkingNode>> nodes;
  for (int node = 0; node < 5; ++node) nodes.push_back(std::make_unique<TalkingNode>(world));
  Prng prng(99);  // what is said is the same for every seed of the world
  for (size_t from = 0; from < 5; ++from) {
    for (size_t to = 0; to < 5; ++to) {
      if (from != to) nodes[from]->connect(*nodes[to], to);
    }
    for (int message = 0; message < 40; ++message) {
      const uint64_t to = (from + 1 + prng.below(4)) % 5;
      const auto time = static_cast<TimeNs>(10'000 + prng.below(100'000));
      nodes[from]->send_at(time, to, counting_text(1 + prng.below(2'000)));
    }
  }
  world.at(60'000, 0, [&] { world.kill(3); });
  world.at(70'000, 0, [&] { world.vanish(4); });
  world.run(never);
  uint64_t hash = 14695981039346656037ULL;
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 1099511628211ULL; };
  for (const auto& node : nodes) {
    for (const Arrival& arrival : node->arrivals()) {
      mix(static_cast<uint64_t>(arrival.time));
      mix(arrival.token);
      mix(arrival.bytes);
    }
    for (uint64_t token = 0; token < 5; ++token) {
      mix(static_cast<uint64_t>(node->failure_time(token)));
    }
    mix(static_cast<uint64_t>(node->step_count()));
  }
  mix(world.bytes_sent());
  return hash;
}

TEST(World, TheSameSeedRepeatsBitForBitAndAnotherDiffers) {
  for (const bool reads_late : {false, true}) {
    for (const size_t segment_bytes_min : {size_t{0}, size_t{1}}) {
      const uint64_t first = trace_of(1, reads_late, segment_bytes_min);
      EXPECT_EQ(first, trace_of(1, reads_late, segment_bytes_min));
      EXPECT_NE(first, trace_of(2, reads_late, segment_bytes_min));
    }
  }
}

TEST(World, RunsTheSameOnEveryMachine) {
  EXPECT_EQ(trace_of(1, false, 1), 10199307754851010838u);
}

}  // namespace
}  // namespace mccl::sim
