#include "sim/device.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace mccl::sim {
namespace {

using testing::Test;

// A device in time that moves by hand, executed whenever it asks.
class SimDevice : public Test {
 protected:
  void make(HandOffFault fault = HandOffFault::None) {
    device_ = std::make_unique<Device>(DeviceOptions{.fault = fault}, clock_,
                                       [this](TimeNs time_ns) { armed_.push_back(time_ns); });
    hand_off_ = device_->hand_off();
  }

  // Time passes until `time_ns`; the device runs whenever it is due.
  void advance(TimeNs time_ns) {
    while (!armed_.empty()) {
      const TimeNs due = armed_.front();
      if (due > time_ns) break;
      armed_.erase(armed_.begin());
      clock_.advance_to(due);
      device_->run();
    }
    clock_.advance_to(time_ns);
  }

  Kernel kernel(std::string name, TimeNs duration_ns) {
    return {.name = name, .duration_ns = duration_ns, .run = [this, name] {
              log_.push_back(name + " " + std::to_string(clock_.now()));
            }};
  }

  ManualClock clock_;
  std::vector<TimeNs> armed_;
  std::vector<std::string> log_;
  std::unique_ptr<Device> device_;
  std::shared_ptr<HandOff> hand_off_;
};

TEST_F(SimDevice, RunsWhatIsCommittedInOrderEachForItsTime) {
  make();
  device_->encode(kernel("a", 100));
  device_->encode(kernel("b", 50));
  advance(1'000);
  EXPECT_TRUE(log_.empty());
  EXPECT_FALSE(device_->is_idle());
  device_->commit();
  device_->encode(kernel("c", 1));
  advance(2'000);
  EXPECT_EQ(log_, (std::vector<std::string>{"a 1100", "b 1150"}));
  EXPECT_FALSE(device_->is_idle());
  device_->commit();
  advance(3'000);
  EXPECT_EQ(log_.back(), "c 2001");
  EXPECT_TRUE(device_->is_idle());
}

TEST_F(SimDevice, WakesTheEngineWhenTheKernelsBeforeTheSignalHaveFinished) {
  make();
  device_->encode(kernel("a", 100));
  const uint64_t ticket = hand_off_->signal_producer().value();
  device_->encode(kernel("b", 1'000));
  device_->commit();
  std::vector<TimeNs> woken;
  EXPECT_FALSE(hand_off_->await_producer(ticket, [&] { woken.push_back(clock_.now()); }));
  advance(99);
  EXPECT_TRUE(woken.empty());
  advance(5'000);
  EXPECT_EQ(woken, std::vector<TimeNs>{100});
  EXPECT_TRUE(hand_off_->await_producer(ticket, [&] { woken.push_back(-1); }));
  EXPECT_EQ(woken.size(), 1u);
}

TEST_F(SimDevice, HoldsTheStreamUntilTheEngineHasDoneWithTheTicket) {
  make();
  const uint64_t first = hand_off_->signal_producer().value();
  const uint64_t second = hand_off_->signal_producer().value();
  ASSERT_TRUE(hand_off_->wait_consumer(second).is_ok());
  device_->encode(kernel("a", 10));
  device_->commit();
  advance(100);
  hand_off_->raise_consumer(first);  // operations may end in any order; this one is not waited for
  advance(200);
  EXPECT_TRUE(log_.empty());
  hand_off_->raise_consumer(second);
  advance(300);
  EXPECT_EQ(log_, std::vector<std::string>{"a 210"});
  EXPECT_EQ(device_->counts().device_waits, 1u);
  ASSERT_TRUE(hand_off_->wait_consumer(second).is_ok());  // done already: nothing to wait for
  EXPECT_EQ(device_->counts().device_waits, 1u);
  EXPECT_TRUE(device_->violations().empty());
}

TEST_F(SimDevice, HandsOutAtOnceWhatWasReleasedLast) {
  make();
  void* const first = device_->allocate(1'000);
  void* const second = device_->allocate(900);
  device_->release(first);
  device_->release(second);
  EXPECT_EQ(device_->allocate(600), second);
  EXPECT_EQ(device_->allocate(1'024), first);
  EXPECT_EQ(device_->counts().reused_blocks, 2u);
}

TEST_F(SimDevice, ReportsAKernelThatUsesWhatTheEngineHas) {
  make();
  std::vector<std::byte> memory(100);
  device_->encode({.name = "before", .duration_ns = 10, .writes = {{memory.data(), 100}}});
  const uint64_t ticket = hand_off_->signal_producer().value();
  device_->note_memory(ticket, {.reads = {{memory.data(), 50}}, .writes = {{&memory[50], 50}}});
  device_->encode({.name = "reads what is read", .reads = {{memory.data(), 50}}});
  device_->encode({.name = "beside", .writes = {{&memory[99] + 1, 1}}});
  device_->commit();
  advance(50);
  EXPECT_TRUE(device_->violations().empty());
  device_->encode({.name = "reads", .reads = {{&memory[99], 1}}});
  device_->encode({.name = "writes", .writes = {{&memory[49], 1}}});
  device_->commit();
  advance(100);
  EXPECT_EQ(device_->violations(),
            (std::vector<std::string>{"O2: a kernel (reads) uses the memory of ticket 1, which the "
                                      "engine has not given back",
                                      "O2: a kernel (writes) uses the memory of ticket 1, which "
                                      "the engine has not given back"}));
}

TEST_F(SimDevice, ReportsMemoryThatIsReleasedUnderTheEngine) {
  make();
  void* const data = device_->allocate(256);
  const uint64_t ticket = hand_off_->signal_producer().value();
  device_->note_memory(ticket, {.writes = {{data, 256}}});
  device_->release(data);
  EXPECT_EQ(device_->violations(),
            std::vector<std::string>{"held: memory of ticket 1 was released before the engine had "
                                     "done with it"});
}

TEST_F(SimDevice, LetsMemoryGoOnceTheStreamWaits) {
  make();
  void* const data = device_->allocate(256);
  const uint64_t ticket = hand_off_->signal_producer().value();
  device_->note_memory(ticket, {.writes = {{data, 256}}});
  ASSERT_TRUE(hand_off_->wait_consumer(ticket).is_ok());
  device_->release(data);
  EXPECT_TRUE(device_->violations().empty());
}

TEST_F(SimDevice, ReportsATicketThatIsRaisedTwice) {
  make();
  const uint64_t ticket = hand_off_->signal_producer().value();
  hand_off_->raise_consumer(ticket);
  hand_off_->raise_consumer(ticket);
  EXPECT_EQ(device_->violations(),
            std::vector<std::string>{"O2: ticket 1 was raised twice, or is unknown"});
}

TEST_F(SimDevice, ReportsAnEngineThatEncodes) {
  make(HandOffFault::EngineEncodes);
  const uint64_t ticket = hand_off_->signal_producer().value();
  hand_off_->raise_consumer(ticket);
  const std::vector<std::string> violations = device_->violations();
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_TRUE(violations[0].starts_with("O3: a kernel () was encoded by the engine"));
  EXPECT_TRUE(violations[1].starts_with("O3: the stream was committed by the engine"));
}

TEST_F(SimDevice, ReportsASignalThatIsNotCommitted) {
  make(HandOffFault::NoCommit);
  const uint64_t ticket = hand_off_->signal_producer().value();
  EXPECT_FALSE(hand_off_->await_producer(ticket, [] {}));
  EXPECT_EQ(device_->violations(),
            std::vector<std::string>{
                "liveness: the engine awaits ticket 1, whose signal is not committed"});
}

TEST_F(SimDevice, ReportsAnEngineThatIsToldTooEarly) {
  make(HandOffFault::EarlyProducer);
  device_->encode(kernel("a", 100));
  const uint64_t ticket = hand_off_->signal_producer().value();
  EXPECT_TRUE(hand_off_->await_producer(ticket, [] {}));
  EXPECT_EQ(device_->violations(),
            std::vector<std::string>{"O1: the engine was told that ticket 1 has come before its "
                                     "kernels had finished"});
}

}  // namespace
}  // namespace mccl::sim
