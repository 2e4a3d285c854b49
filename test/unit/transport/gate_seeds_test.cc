// Two processes that connect to each other: every order of their calls, jitter, bytes that come one
// by one, one direction that may be blocked, processes that are stopped. In the end there is one
// link and every message has arrived once and in order; or, where one direction is blocked, the
// link has failed on both sides.
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "link_pair.h"

namespace mccl {
namespace {

constexpr int kSeeds = 1'000;
constexpr TimeNs kLatencyNs = 1'000;
constexpr int kMessages = 4;  // two before the first call may connect, two later

struct SeedRun {
  explicit SeedRun(uint64_t seed)
      : prng(seed),
        world({.seed = seed,
               .latency_ns = kLatencyNs,
               .latency_jitter = 2,
               .segment_bytes_max = 1 + prng.below(80),
               .reads_late = prng.below(4) == 0}),
        left(world, 1),
        right(world, 2) {}

  TimeNs draw_time() { return static_cast<TimeNs>(prng.below(8 * kLatencyNs)); }

  void connect_at(Process& from, const PeerAddress& to, Initiative initiative) {
    world.at(draw_time(), from.node(), [&from, to, initiative] {
      ASSERT_TRUE(from.transport().connect(to, initiative).is_ok());
    });
  }

  // Each message says who sent it, and its number in the order of posting.
  void post_all(Process& from, Process& to) {
    SendStream& stream = from.link_to(to).send_stream(kCommunicator, kChannel);
    stream.add_owner(&owner, 0);
    for (int number = 0; number < kMessages; ++number) {
      const auto post = [this, &stream, node = from.node()] {
        texts.push_back(std::to_string(node) + " says " + std::to_string(stream.position()));
        post_bytes(stream, texts.back());
      };
      // Two standing messages need no grant; each later one waits until one was taken.
      if (number < 2)
        world.at(draw_time(), from.node(), post);
      else
        late_posts.push_back({from.node(), post});
    }
  }

  // Stops it for longer than any greeting may take. Both look at their clocks all the while.
  void stop_for_a_while(Process& process, Process& other) {
    const TimeNs begin = draw_time();
    const TimeNs end = begin + 7 * kNsPerSecond;
    world.at(begin, process.node(), [this, &process] { world.pause(process.node()); });
    world.at(end, other.node(), [this, &process] { world.resume(process.node()); });
    for (TimeNs time = 0; time < 10 * kNsPerSecond; time += kNsPerSecond / 2)
      for (Process* one : {&process, &other})
        world.at(time + draw_time(), one->node(),
                 [this, one] { one->transport().expire(world.clock().now(), true); });
  }

  // What has arrived, taken in order.
  std::string take_all(Process& from, Process& to) {
    RecvStream& stream = to.link_to(from).recv_stream(kCommunicator, kChannel);
    std::string taken;
    while (stream.has_message()) taken += text_of(stream.take(false)) + ";";
    return taken;
  }

  void run() {
    world.run([] { return false; });
  }

  Prng prng;
  CountingOwner owner;
  std::deque<std::string> texts;  // stay where they are until they are sent
  std::vector<std::pair<int, std::function<void()>>> late_posts;
  sim::World world;
  Process left;
  Process right;
};

void expect_all_messages(SeedRun& run) {
  EXPECT_EQ(run.take_all(run.left, run.right), "0 says 0;0 says 1;");
  EXPECT_EQ(run.take_all(run.right, run.left), "1 says 0;1 says 1;");
  run.world.wires(run.left.node()).wake();  // the credits go out
  run.world.wires(run.right.node()).wake();
  run.run();
  for (auto& [node, post] : run.late_posts) run.world.at(0, node, post);
  run.run();
  EXPECT_EQ(run.take_all(run.left, run.right), "0 says 2;0 says 3;");
  EXPECT_EQ(run.take_all(run.right, run.left), "1 says 2;1 says 3;");
  run.world.wires(run.left.node()).wake();
  run.world.wires(run.right.node()).wake();
  run.run();
  // Nothing went over another connection.
  EXPECT_EQ(run.left.link_to(run.right).bytes_written(), run.right.link_to(run.left).bytes_read());
  EXPECT_EQ(run.right.link_to(run.left).bytes_written(), run.left.link_to(run.right).bytes_read());
  const TimeNs later = run.world.clock().now() + 60 * kNsPerSecond;
  EXPECT_EQ(run.left.transport().expire(later, false), kNever) << "a stranger is left";
  EXPECT_EQ(run.right.transport().expire(later, false), kNever);
}

// With `is_stopped` one of the two is, in the middle of it.
void expect_one_link(bool is_stopped) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeedRun run(seed);
    if (is_stopped && run.prng.below(2) == 0)
      run.stop_for_a_while(run.left, run.right);
    else if (is_stopped)
      run.stop_for_a_while(run.right, run.left);
    const auto initiative = [&] {
      return run.prng.below(2) == 0 ? Initiative::Ours : Initiative::SmallerId;
    };
    run.connect_at(run.left, run.right.address(), initiative());
    for (uint64_t calls = run.prng.below(3); calls > 0; --calls)
      run.connect_at(run.right, run.left.address(), initiative());
    run.connect_at(run.right, run.left.address(), Initiative::Ours);
    run.post_all(run.left, run.right);
    run.post_all(run.right, run.left);
    run.run();
    ASSERT_EQ(run.left.failure.to_string(), "ok");
    ASSERT_EQ(run.right.failure.to_string(), "ok");
    expect_all_messages(run);
  }
}

TEST(GateSeeds, TwoThatConnectToEachOtherGetOneLinkAndLoseNothing) {
  expect_one_link(false);
}

TEST(GateSeeds, AProcessThatIsStoppedMeanwhileChangesNothing) {
  expect_one_link(true);
}

TEST(GateSeeds, WhereTheSmallerIdCannotConnectTheOtherConnectionServesOrBothSidesHear) {
  int served = 0, refused = 0;
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeedRun run(seed);
    PeerAddress blocked = run.right.address();
    blocked.address = "sim://99";
    run.connect_at(run.left, blocked, Initiative::Ours);
    run.connect_at(run.right, run.left.address(), Initiative::Ours);
    run.post_all(run.left, run.right);
    run.post_all(run.right, run.left);
    run.run();
    if (run.left.failure.is_ok()) {
      ++served;
      ASSERT_EQ(run.right.failure.to_string(), "ok");
      expect_all_messages(run);
      continue;
    }
    // Ours had failed before the other one's greeting came.
    ++refused;
    ASSERT_EQ(run.left.failure.to_string(), "network: nobody listens at sim://99");
    ASSERT_EQ(run.right.failure.code(), StatusCode::PeerLost);
    ASSERT_EQ(run.take_all(run.left, run.right) + run.take_all(run.right, run.left), "");
  }
  EXPECT_GT(served, 100);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace mccl
