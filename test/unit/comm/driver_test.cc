// Law L12: an endpoint on which nothing happens blocks, without a time limit, and a caller's wait
// ends by its deadline or its predicate.
#include "comm/driver.h"

#include <gtest/gtest.h>

#include <chrono>

#include "device/cpu_device.h"

namespace mccl {
namespace {

// Wires on which nothing ever happens; writes down how long each poll was willing to block.
class QuietContext final : public WireContext {
 public:
  std::string address() const override { return "quiet://"; }
  Result<std::unique_ptr<Wire>> connect(const std::string&, uint64_t) override {
    return Status(StatusCode::Unsupported, "nobody is there");
  }
  std::unique_ptr<Wire> accept(uint64_t) override { return nullptr; }

  void poll(int64_t timeout_ns, std::vector<WireEvent>&) override {
    std::unique_lock lock(mutex_);
    if (timeout_ns == 0) return;
    timeouts_.push_back(timeout_ns);
    changed_.notify_all();
    const auto is_woken = [this] { return is_woken_; };
    if (timeout_ns < 0) {
      changed_.wait(lock, is_woken);
    } else {
      changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), is_woken);
    }
    is_woken_ = false;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
    changed_.notify_all();
  }

  // The limits of all polls that could block, once there has been one without a limit; gives up
  // after a while.
  std::vector<int64_t> timeouts_until_unlimited() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10),
                      [this] { return !timeouts_.empty() && timeouts_.back() < 0; });
    return timeouts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_woken_ = false;
  std::vector<int64_t> timeouts_;
};

struct Quiet {
  QuietContext wires;
  SystemClock clock;
  CpuDevice device;
  Logger logger{LogLevel::Error, "mccl"};
  Engine engine{wires,          clock, device, logger, Identity{.process_id = 1, .token = 2},
                "host h, pid 1"};
};

TEST(Driver, BlocksWithoutATimeLimitWhileNothingIsInFlight) {
  Quiet quiet;
  Driver driver(quiet.engine, quiet.wires, true);
  EXPECT_EQ(quiet.wires.timeouts_until_unlimited(), (std::vector<int64_t>{-1}));
}

TEST(Driver, EndsAWaitAtItsDeadline) {
  Quiet quiet;
  Driver driver(quiet.engine, quiet.wires, false);
  const std::atomic<bool> is_done{false};
  const Status status = driver.door()->wait(is_done, 0, {});
  EXPECT_EQ(status.code(), StatusCode::Timeout);
  EXPECT_EQ(status.message(), "the wait timed out");
}

// As of a process that has no descriptor left for the connection that waits.
class BusyContext final : public WireContext {
 public:
  std::string address() const override { return "busy://"; }
  Result<std::unique_ptr<Wire>> connect(const std::string&, uint64_t) override {
    return Status(StatusCode::Unsupported, "nobody is there");
  }
  std::unique_ptr<Wire> accept(uint64_t) override { return nullptr; }
  void poll(int64_t, std::vector<WireEvent>& events) override {
    ASSERT_LT(++polls_, 10'000'000) << "the deadline is not looked at";
    events.push_back({.acceptable = true});
  }
  void wake() override {}

 private:
  int polls_ = 0;
};

TEST(Driver, EndsAWaitAtItsDeadlineWhileTheWiresReportWithoutEnd) {
  BusyContext wires;
  SystemClock clock;
  CpuDevice device;
  Logger logger{LogLevel::Error, "mccl"};
  Engine engine{wires,          clock, device, logger, Identity{.process_id = 1, .token = 2},
                "host h, pid 1"};
  Driver driver(engine, wires, false);
  const std::atomic<bool> is_done{false};
  EXPECT_EQ(driver.door()->wait(is_done, kNsPerMs, {}).code(), StatusCode::Timeout);
}

TEST(Driver, EndsAWaitWhenItsPredicateSaysSo) {
  Quiet quiet;
  Driver driver(quiet.engine, quiet.wires, false);
  const std::atomic<bool> is_done{false};
  int questions = 0;
  const Status status = driver.door()->wait(is_done, -1, [&] { return ++questions == 2; });
  EXPECT_EQ(status.code(), StatusCode::Aborted);
  EXPECT_EQ(status.message(), "the wait was interrupted");
  EXPECT_EQ(questions, 2);
}

TEST(Driver, DoesNotWaitForWhatIsDone) {
  Quiet quiet;
  Driver driver(quiet.engine, quiet.wires, false);
  const std::atomic<bool> is_done{true};
  EXPECT_TRUE(driver.door()->wait(is_done, 0, [] { return true; }).is_ok());
}

// A predicate may run a signal handler, and that may do anything.
TEST(Driver, MayBeDestroyedByThePredicateOfAWait) {
  Quiet quiet;
  auto driver = std::make_unique<Driver>(quiet.engine, quiet.wires, true);
  const std::shared_ptr<DriverDoor> door = driver->door();
  std::atomic<bool> is_done{false};
  const Status status = door->wait(is_done, -1, [&] {
    driver.reset();
    return false;
  });
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(driver, nullptr);
}

TEST(Driver, MayBeWaitedForByThePredicateOfAWait) {
  Quiet quiet;
  Driver driver(quiet.engine, quiet.wires, false);
  const std::atomic<bool> is_done{false};
  Status inner;
  const Status outer = driver.door()->wait(is_done, -1, [&] {
    inner = driver.door()->wait(is_done, 0, {});
    return true;
  });
  EXPECT_EQ(inner.code(), StatusCode::Timeout);
  EXPECT_EQ(outer.code(), StatusCode::Aborted);
}

TEST(WaitPolicy, SpinsWhereEveryRankHasACoreElseYields) {
  EXPECT_GT(choose_wait_policy(2, 2).spin_ns, 0);
  EXPECT_EQ(choose_wait_policy(3, 2).spin_ns, 0);
  EXPECT_GT(choose_wait_policy(3, 2).yield_ns, 0);
}

}  // namespace
}  // namespace mccl
