// Whatever ends a call, the device's stream goes on, and the host is told.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/device.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::Test;

class HandOffFailure : public Test {
 protected:
  // Two ranks; rank 0 has a device.
  void make(std::vector<std::pair<std::string, std::string>> settings = {},
            sim::HandOffFault fault = sim::HandOffFault::None) {
    settings.emplace_back("MCCL_LOG", "error");
    group_ = std::make_unique<SimGroup>(
        2, sim::WorldOptions{},
        SimGroupOptions{.settings = settings, .portions = {}, .prover = {}});
    device_ = std::make_unique<sim::Device>(
        sim::DeviceOptions{.fault = fault}, group_->world().clock(),
        [this](TimeNs time_ns) { group_->world().at(time_ns, 0, [this] { device_->run(); }); });
  }

  Result<std::shared_ptr<Work>> reduce(int64_t timeout_ns = -1) {
    return group_->communicator(0).all_reduce(
        data_.data(), data_.data(), 4, DataType::Float32, ReduceOp::Sum,
        {.timeout_ns = timeout_ns, .hand_off = device_->hand_off()});
  }

  // Until nothing happens any more, with a look at the engine every 100 ms of `duration_ns`: what a
  // driver's thread does.
  void pass(TimeNs duration_ns) {
    const TimeNs begin_ns = group_->world().clock().now();
    for (TimeNs at_ns = 0; at_ns <= duration_ns; at_ns += 100 * kNsPerMs)
      group_->world().at(begin_ns + at_ns, 0, [] {});
    (void)group_->world().run([] { return false; }, begin_ns + duration_ns);
  }

  std::unique_ptr<SimGroup> group_;
  std::unique_ptr<sim::Device> device_;
  std::vector<float> data_ = std::vector<float>(4, 1);
};

TEST_F(HandOffFailure, ALostPeerDoesNotLeaveTheStreamWaiting) {
  make();
  const std::shared_ptr<Work> work = reduce().value();
  ASSERT_TRUE(work->wait_on_stream().value());
  device_->encode({.name = "reads"});
  device_->commit();
  pass(kNsPerMs * 100);
  EXPECT_FALSE(device_->is_idle());
  group_->world().kill(1);
  pass(kNsPerMs * 500);  // it had never said anything: it is judged late
  ASSERT_TRUE(work->is_done());
  EXPECT_EQ(work->status().code(), StatusCode::PeerLost);
  EXPECT_TRUE(device_->is_idle());
  EXPECT_EQ(work->wait_on_stream().status().code(), StatusCode::PeerLost);
}

TEST_F(HandOffFailure, ARefusedCallGivesItsTicketBack) {
  make();
  group_->communicator(0).abort("for the test");
  const Result<std::shared_ptr<Work>> refused = reduce();
  EXPECT_EQ(refused.status().code(), StatusCode::Aborted);
  ASSERT_TRUE(device_->hand_off()->wait_consumer(1).is_ok());
  EXPECT_EQ(device_->counts().device_waits, 0u);  // nothing to wait for: it has been given back
  EXPECT_TRUE(device_->violations().empty());
}

TEST_F(HandOffFailure, KernelsThatNeverFinishAreNamedWhenTheTimeIsOver) {
  make({}, sim::HandOffFault::NoCommit);
  const std::shared_ptr<Work> work = reduce(2 * kNsPerSecond).value();
  pass(3 * kNsPerSecond);
  ASSERT_TRUE(work->is_done());
  EXPECT_EQ(work->status().code(), StatusCode::Timeout);
  EXPECT_NE(work->status().message().find("waiting for the kernels of this rank's device "
                                          "that write its memory (ticket 1)"),
            std::string::npos)
      << work->status().message();
}

TEST_F(HandOffFailure, AStreamThatWaitsTooLongEndsTheCommunicator) {
  make();
  const std::shared_ptr<Work> work = reduce().value();
  pass(10 * kNsPerSecond);
  EXPECT_FALSE(work->is_done());  // nobody waits: there is no limit but the operation's own
  ASSERT_TRUE(work->wait_on_stream().value());
  device_->commit();
  pass(3 * kNsPerSecond + kNsPerSecond / 2);
  EXPECT_FALSE(work->is_done());
  pass(kNsPerSecond);
  ASSERT_TRUE(work->is_done());
  EXPECT_EQ(work->status().code(), StatusCode::Timeout);
  EXPECT_NE(work->status().message().find(
                "this rank's device has waited for it for 4000 ms, the longest that it may "
                "(MCCL_DEVICE_WAIT; 0 lets the host wait instead); the operation waits for a "
                "message from rank 1"),
            std::string::npos)
      << work->status().message();
  EXPECT_TRUE(device_->is_idle());
}

// The stream stands at its first wait, for the last call, however many others are completed
// meanwhile.
TEST_F(HandOffFailure, AStreamThatWaitsForTheLastCallFirstIsTimedByThatWait) {
  make();
  std::vector<std::shared_ptr<Work>> works;
  for (int call = 0; call < 6; ++call) works.push_back(reduce().value());
  for (auto work = works.rbegin(); work != works.rend(); ++work)
    ASSERT_TRUE((*work)->wait_on_stream().value());
  device_->commit();
  std::vector<float> other(4, 1);
  for (int call = 0; call < 5; ++call) {
    (void)group_->communicator(1).all_reduce(other.data(), other.data(), 4, DataType::Float32,
                                             ReduceOp::Sum);
    pass(kNsPerSecond);
  }
  EXPECT_TRUE(works[3]->status().is_ok()) << works[3]->status().to_string();
  ASSERT_TRUE(works[5]->is_done());
  EXPECT_EQ(works[5]->status().code(), StatusCode::Timeout) << works[5]->status().to_string();
  EXPECT_TRUE(device_->is_idle());
}

// A stream on which nothing can be encoded any more.
class BrokenStream final : public HandOff {
 public:
  explicit BrokenStream(std::shared_ptr<HandOff> inner) : inner_(std::move(inner)) {}
  Result<uint64_t> signal_producer() override { return inner_->signal_producer(); }
  Status wait_consumer(uint64_t) override { return Status(StatusCode::Internal, "no stream"); }
  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    return inner_->await_producer(ticket, std::move(wake));
  }
  void raise_consumer(uint64_t ticket) override { inner_->raise_consumer(ticket); }

 private:
  const std::shared_ptr<HandOff> inner_;
};

TEST_F(HandOffFailure, AStreamThatCannotWaitIsNotTimed) {
  make();
  const std::shared_ptr<Work> work =
      group_->communicator(0)
          .all_reduce(data_.data(), data_.data(), 4, DataType::Float32, ReduceOp::Sum,
                      {.hand_off = std::make_shared<BrokenStream>(device_->hand_off())})
          .value();
  EXPECT_EQ(work->wait_on_stream().status().code(), StatusCode::Internal);
  pass(10 * kNsPerSecond);
  EXPECT_FALSE(work->is_done());  // the host waits, as long as it likes
}

TEST_F(HandOffFailure, WithoutDeviceWaitsTheHostWaits) {
  make({{"MCCL_DEVICE_WAIT", "0"}});
  const std::shared_ptr<Work> work = reduce().value();
  EXPECT_FALSE(work->wait_on_stream().value());
  pass(10 * kNsPerSecond);
  EXPECT_FALSE(work->is_done());
  EXPECT_EQ(device_->counts().device_waits, 0u);
}

}  // namespace
}  // namespace mccl
