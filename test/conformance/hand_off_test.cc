// The suite that every hand-off passes (law L13, include/mccl/device.h). Kernels and the engine
// write numbers into cells; the tests say which number must be there and what must not have run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/prng.h"
#include "conformance/hand_off_world.h"

namespace mccl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One call as the two sides see it.
struct Ticket {
  HandOffWorld::Call call;
  uint64_t number = 0;
  std::atomic<int> wakes = 0;
  std::atomic<int64_t> cell_at_wake = -1;

  bool await() {
    return call.hand_off->await_producer(number, [this] {
      cell_at_wake = *call.host_cell;
      ++wakes;
    });
  }
  void raise() { call.hand_off->raise_consumer(number); }
  void wait() { ASSERT_TRUE(call.hand_off->wait_consumer(number).is_ok()); }
};

class Bench {
 public:
  explicit Bench(const HandOffKind& kind) : world_(kind.make_world()) {}
  ~Bench() { EXPECT_THAT(world_->violations(), IsEmpty()); }

  HandOffWorld& world() { return *world_; }
  int64_t cell(size_t index) { return *world_->device_cell(index); }

  void write(size_t index, int64_t value) {
    world_->encode([this, index, value] { *world_->device_cell(index) = value; });
  }
  // Appends what the cell holds when the kernel runs to seen().
  void read(size_t index) {
    world_->encode([this, index] { seen_.push_back(cell(index)); });
  }
  const std::vector<int64_t>& seen() const { return seen_; }

  // A call on the cell, signalled.
  Ticket& signal(size_t cell) {
    Ticket& ticket = tickets_.emplace_back();
    ticket.call = world_->begin_call(cell);
    const Result<uint64_t> number = ticket.call.hand_off->signal_producer();
    EXPECT_TRUE(number.is_ok()) << number.status().to_string();
    if (number.is_ok()) ticket.number = number.value();
    return ticket;
  }

  // A call whose kernels have finished, and of which the engine knows it.
  Ticket& hand_over(size_t cell) {
    Ticket& ticket = signal(cell);
    world_->run();
    EXPECT_TRUE(ticket.await());
    return ticket;
  }

 private:
  std::unique_ptr<HandOffWorld> world_;
  std::deque<Ticket> tickets_;  // a deque: wakes point at them
  std::vector<int64_t> seen_;
};

TEST_P(HandOffTest, TheEngineIsToldWhenTheKernelsHaveFinished) {
  Bench bench(GetParam());
  bench.write(0, 17);
  Ticket& ticket = bench.signal(0);
  EXPECT_FALSE(ticket.await());
  EXPECT_EQ(ticket.wakes, 0);
  bench.world().run();
  EXPECT_EQ(ticket.wakes, 1);
  EXPECT_EQ(ticket.cell_at_wake, 17);
  ticket.raise();
  bench.world().run();
  EXPECT_EQ(ticket.wakes, 1);
}

TEST_P(HandOffTest, WhoAsksLateIsToldAtOnceAndNotWoken) {
  Bench bench(GetParam());
  bench.write(0, 18);
  Ticket& ticket = bench.signal(0);
  bench.world().run();
  EXPECT_TRUE(ticket.await());
  EXPECT_EQ(*ticket.call.host_cell, 18);
  ticket.raise();
  bench.world().run();
  EXPECT_EQ(ticket.wakes, 0);
}

TEST_P(HandOffTest, ATicketWaitsForItsOwnKernels) {
  Bench bench(GetParam());
  bench.write(0, 1);
  Ticket& first = bench.hand_over(0);
  bench.write(1, 2);
  Ticket& second = bench.signal(1);
  EXPECT_FALSE(second.await());
  bench.world().run();
  EXPECT_EQ(second.wakes, 1);
  EXPECT_EQ(*second.call.host_cell, 2);
  first.raise();
  second.raise();
}

TEST_P(HandOffTest, TheSignalCommitsWhatIsBeforeItAndNothingLater) {
  Bench bench(GetParam());
  bench.write(0, 5);
  Ticket& ticket = bench.signal(0);
  bench.write(1, 6);
  bench.world().run();
  EXPECT_TRUE(ticket.await());
  EXPECT_EQ(bench.cell(0), 5);
  EXPECT_EQ(bench.cell(1), 0);
  ticket.raise();
}

TEST_P(HandOffTest, KernelsBehindTheWaitRunAfterTheRaise) {
  Bench bench(GetParam());
  bench.write(0, 3);
  Ticket& ticket = bench.hand_over(0);
  ticket.wait();
  bench.read(0);
  bench.world().commit();
  bench.world().run();
  EXPECT_THAT(bench.seen(), IsEmpty());
  *ticket.call.host_cell += 100;
  ticket.raise();
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(103));
}

TEST_P(HandOffTest, KernelsBeforeTheWaitDoNotWait) {
  Bench bench(GetParam());
  Ticket& ticket = bench.hand_over(0);
  bench.write(1, 4);
  ticket.wait();
  bench.write(2, 5);
  bench.world().commit();
  bench.world().run();
  EXPECT_EQ(bench.cell(1), 4);
  EXPECT_EQ(bench.cell(2), 0);
  ticket.raise();
  bench.world().run();
  EXPECT_EQ(bench.cell(2), 5);
}

TEST_P(HandOffTest, TheWaitCommitsNothing) {
  Bench bench(GetParam());
  Ticket& ticket = bench.hand_over(0);
  bench.write(1, 4);
  ticket.wait();
  bench.world().run();
  EXPECT_EQ(bench.cell(1), 0);
  ticket.raise();
}

TEST_P(HandOffTest, AWaitBehindTheRaisePasses) {
  Bench bench(GetParam());
  bench.write(0, 7);
  Ticket& ticket = bench.hand_over(0);
  *ticket.call.host_cell += 100;
  ticket.raise();
  ticket.wait();
  bench.read(0);
  bench.world().commit();
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(107));
}

TEST_P(HandOffTest, ATicketThatNobodyWaitsForHoldsNothingUp) {
  Bench bench(GetParam());
  bench.write(0, 7);
  Ticket& ticket = bench.hand_over(0);
  ticket.raise();
  for (int64_t round = 0; round < 5; ++round) {
    bench.write(1, round);
    Ticket& next = bench.hand_over(1);
    EXPECT_EQ(*next.call.host_cell, round);
    next.raise();
    bench.world().run();
  }
}

TEST_P(HandOffTest, TheWaitMayBeEncodedTwice) {
  Bench bench(GetParam());
  Ticket& ticket = bench.hand_over(0);
  ticket.wait();
  bench.read(0);
  ticket.wait();
  bench.read(0);
  bench.world().commit();
  *ticket.call.host_cell = 9;
  ticket.raise();
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(9, 9));
}

TEST_P(HandOffTest, ALaterCallThatEndsFirstReleasesOnlyItsOwnKernels) {
  Bench bench(GetParam());
  Ticket& first = bench.signal(0);
  Ticket& second = bench.signal(1);
  bench.world().run();
  EXPECT_TRUE(first.await());
  EXPECT_TRUE(second.await());
  first.wait();
  bench.read(0);
  bench.world().commit();
  *second.call.host_cell = 2;
  second.raise();
  bench.world().run();
  EXPECT_THAT(bench.seen(), IsEmpty());
  *first.call.host_cell = 1;
  first.raise();
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(1));
}

TEST_P(HandOffTest, ALaterCallDoesNotWaitForAnEarlierOne) {
  Bench bench(GetParam());
  Ticket& first = bench.signal(0);
  Ticket& second = bench.signal(1);
  bench.world().run();
  EXPECT_TRUE(first.await());
  EXPECT_TRUE(second.await());
  second.wait();
  bench.read(1);
  bench.world().commit();
  *second.call.host_cell = 2;
  second.raise();
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(2));
  first.raise();
}

// What was used for earlier tickets must not let a later one through.
TEST_P(HandOffTest, EveryTicketWaitsAnew) {
  Bench bench(GetParam());
  std::vector<int64_t> expected;
  for (int64_t round = 1; round <= 10; ++round) {
    bench.write(0, round);
    Ticket& ticket = bench.hand_over(0);
    ticket.wait();
    bench.read(0);
    bench.world().commit();
    bench.world().run();
    EXPECT_EQ(bench.seen(), expected);
    *ticket.call.host_cell = 1000 + round;
    ticket.raise();
    bench.world().run();
    expected.push_back(1000 + round);
    EXPECT_EQ(bench.seen(), expected);
  }
}

// The engine gives up before the device has come so far: nothing waits, and the device goes on.
TEST_P(HandOffTest, ACallThatFailsEarlyHoldsNothingUp) {
  Bench bench(GetParam());
  bench.write(0, 3);
  Ticket& ticket = bench.signal(0);
  EXPECT_FALSE(ticket.await());
  ticket.raise();
  ticket.wait();
  bench.read(0);
  bench.write(1, 4);
  Ticket& next = bench.signal(1);
  bench.world().run();
  EXPECT_THAT(bench.seen(), ElementsAre(3));
  EXPECT_TRUE(next.await());
  EXPECT_EQ(*next.call.host_cell, 4);
  next.raise();
  bench.world().run();
}

TEST_P(HandOffTest, CallsMayEndInAnyOrder) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Bench bench(GetParam());
    Prng prng(seed);
    std::vector<Ticket*> in_flight(HandOffWorld::kCellCount, nullptr);
    std::vector<int64_t> expected(HandOffWorld::kCellCount, 0);
    for (int64_t step = 1; step <= 300; ++step) {
      const size_t cell = prng.below(HandOffWorld::kCellCount);
      Ticket*& ticket = in_flight[cell];
      if (ticket == nullptr) {
        bench.write(cell, step);
        ticket = &bench.signal(cell);
        expected[cell] = step;
      } else {
        bench.world().run();
        ASSERT_TRUE(ticket->await());
        ASSERT_EQ(*ticket->call.host_cell, expected[cell]);
        *ticket->call.host_cell = -step;
        expected[cell] = -step;
        const bool waits_first = prng.below(2) == 0;
        if (waits_first) ticket->wait();
        ticket->raise();
        if (!waits_first) ticket->wait();
        ticket = nullptr;
      }
      if (prng.below(4) == 0) bench.world().run();
    }
    for (Ticket* ticket : in_flight)
      if (ticket != nullptr) ticket->raise();
    bench.world().commit();
    bench.world().run();
    for (size_t cell = 0; cell < expected.size(); ++cell) {
      if (in_flight[cell] != nullptr) continue;  // copied back, or not: the engine gave up
      EXPECT_EQ(bench.cell(cell), expected[cell]) << cell;
    }
  }
}

// A device and an engine with threads of their own.
TEST_P(HandOffTest, SumsAreRightUnderThreads) {
  constexpr int64_t kCalls = 400;
  constexpr TimeNs kPatience = 60 * kNsPerSecond;
  Bench bench(GetParam());
  const TimeNs deadline = SystemClock().now() + kPatience;
  std::atomic<bool> is_over = false;
  std::thread device([&] {
    while (!is_over) {
      bench.world().run();
      std::this_thread::yield();
    }
  });

  std::mutex mutex;
  std::deque<Ticket*> given;  // to the engine
  std::thread engine([&] {
    Prng prng(1);
    std::vector<Ticket*> asked;
    std::vector<Ticket*> ready;
    while (!is_over) {
      std::deque<Ticket*> fresh;
      {
        const std::lock_guard lock(mutex);
        fresh.swap(given);
      }
      for (Ticket* ticket : fresh) (ticket->await() ? ready : asked).push_back(ticket);
      std::erase_if(asked, [&](Ticket* ticket) {
        if (ticket->wakes == 0) return false;
        ready.push_back(ticket);
        return true;
      });
      while (!ready.empty()) {
        std::swap(ready[prng.below(ready.size())], ready.back());
        *ready.back()->call.host_cell += 1'000;
        ready.back()->raise();
        ready.pop_back();
      }
      std::this_thread::yield();
    }
  });

  // Every cell is handed over again and again: kernel + 1, engine + 1000, in that order.
  for (int64_t call = 0; call < kCalls; ++call) {
    const size_t cell = static_cast<size_t>(call) % 4;
    bench.world().encode([&bench, cell] { *bench.world().device_cell(cell) += 1; });
    Ticket& ticket = bench.signal(cell);
    {
      const std::lock_guard lock(mutex);
      given.push_back(&ticket);
    }
    ticket.wait();
  }
  std::atomic<bool> is_done = false;
  bench.world().encode([&] { is_done = true; });
  bench.world().commit();
  while (!is_done && SystemClock().now() < deadline) std::this_thread::yield();
  is_over = true;
  device.join();
  engine.join();
  ASSERT_TRUE(is_done);
  for (size_t cell = 0; cell < 4; ++cell) EXPECT_EQ(bench.cell(cell), kCalls / 4 * 1'001) << cell;
}

}  // namespace
}  // namespace mccl
