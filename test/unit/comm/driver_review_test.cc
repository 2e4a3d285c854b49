// Races of waiting callers, each made certain by wires that are told what to report and when.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "comm/driver.h"
#include "device/cpu_device.h"

namespace mccl {
namespace {

// Never has a connection. A blocking poll calls `while_blocked`, then ends.
class ScriptedWires final : public WireContext {
 public:
  std::string address() const override { return "scripted://"; }
  Result<std::unique_ptr<Wire>> connect(const std::string&, uint64_t) override {
    return Status(StatusCode::InvalidArgument, "nobody is there");
  }
  std::unique_ptr<Wire> accept(uint64_t) override {
    ++accepts;
    return nullptr;
  }
  void poll(int64_t timeout_ns, std::vector<WireEvent>& events) override {
    if (timeout_ns != 0) while_blocked(events);
  }
  void wake() override {
    const std::lock_guard lock(mutex);
    ++wakes;
    changed.notify_all();
  }

  std::function<void(std::vector<WireEvent>&)> while_blocked;
  std::mutex mutex;
  std::condition_variable changed;
  int accepts = 0;
  int wakes = 0;
  int inside = 0;
};

struct Bench {
  ScriptedWires wires;
  SystemClock clock;
  CpuDevice device;
  Logger logger{LogLevel::Error, "mccl"};
  Engine engine{wires,          clock, device, logger, Identity{.process_id = 1, .token = 2},
                "host h, pid 1"};
};

TEST(DriverReview, AnEventThatACallerTookIsHandledAlsoWhenItsWorkIsDoneByThen) {
  Bench bench;
  std::atomic<bool> is_done{false};
  bench.wires.while_blocked = [&](std::vector<WireEvent>& events) {
    is_done = true;  // by another thread, meanwhile
    events.push_back({.acceptable = true});
  };
  Driver driver(bench.engine, bench.wires, false);
  driver.set_wait_policy({.spin_ns = 0, .yield_ns = 0});
  EXPECT_TRUE(driver.door()->wait(is_done, -1, {}).is_ok());
  EXPECT_EQ(bench.wires.accepts, 1);
}

TEST(DriverReview, TheDestructorWaitsForACallerWhoseWorkIsDone) {
  Bench bench;
  std::atomic<bool> is_done{false};
  ScriptedWires& wires = bench.wires;
  wires.while_blocked = [&](std::vector<WireEvent>&) {
    std::unique_lock lock(wires.mutex);
    ++wires.inside;
    wires.changed.notify_all();
    wires.changed.wait(lock, [&] { return wires.wakes > 0; });
    --wires.inside;
  };
  std::optional<Driver> driver(std::in_place, bench.engine, wires, false);
  driver->set_wait_policy({.spin_ns = 0, .yield_ns = 0});
  std::thread caller(
      [&, door = driver->door()] { EXPECT_TRUE(door->wait(is_done, -1, {}).is_ok()); });
  {
    std::unique_lock lock(wires.mutex);
    wires.changed.wait(lock, [&] { return wires.inside == 1; });
  }
  is_done = true;
  driver.reset();
  {
    const std::lock_guard lock(wires.mutex);
    EXPECT_EQ(wires.inside, 0);
    ++wires.wakes;  // the caller leaves in any case
    wires.changed.notify_all();
  }
  caller.join();
}

}  // namespace
}  // namespace mccl
