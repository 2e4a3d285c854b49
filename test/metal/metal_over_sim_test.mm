// The Metal hand-off with the simulated device as its GPU, each with a thread: what a torch device
// of a test gets from metal_over_sim.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "base/clock.h"
#import "metal/fake_torch.h"
#include "metal/metal_over_sim.h"

namespace mccl {
namespace {

using ::testing::IsEmpty;

// Items of work, done by a thread in their order.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    post({});
    thread_.join();
  }
  void post(std::function<void()> item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_one();
  }

 private:
  void work() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !items_.empty(); });
      const std::function<void()> item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      if (!item) return;
      item();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> items_;
  std::thread thread_;
};

TEST(MetalOverSim, SumsAreRightWithoutADrain) {
  constexpr int64_t kCalls = 200;
  constexpr size_t kCells = 4;
  const SystemClock clock;
  std::unique_ptr<Worker> gpu;
  sim::Device device({}, clock, [&](TimeNs) { gpu->post([&] { device.run(); }); });
  gpu = std::make_unique<Worker>();
  Worker engine;
  const std::shared_ptr<TensorDevice> metal = fake_metal::make_metal_over_sim(device);
  const std::shared_ptr<HandOff> hand_off = metal->current_stream();

  std::vector<int64_t> cells(kCells, 0);
  const at::Tensor tensor = fake_metal::make_torch_tensor(cells.data(), kCells * sizeof(int64_t),
                                                          {.sizes = {kCells}, .strides = {1}});
  ASSERT_EQ(metal->host_address(tensor), cells.data());
  for (int64_t call = 0; call < kCalls; ++call) {
    int64_t* cell = &cells[static_cast<size_t>(call) % kCells];
    device.encode({.name = "add one", .run = [cell] { *cell += 1; }});
    const uint64_t ticket = hand_off->signal_producer().value();
    const auto finish = [&engine, hand_off, ticket, cell] {
      engine.post([hand_off, ticket, cell] {
        *cell += 1000;
        hand_off->raise_consumer(ticket);
      });
    };
    if (hand_off->await_producer(ticket, finish)) finish();
    ASSERT_TRUE(hand_off->wait_consumer(ticket).is_ok());
  }
  EXPECT_EQ(device.counts().drains, 0u);
  device.synchronize();
  for (const int64_t cell : cells) EXPECT_EQ(cell, kCalls / static_cast<int64_t>(kCells) * 1001);
  gpu = nullptr;  // while the device is there
  EXPECT_THAT(device.violations(), IsEmpty());
  EXPECT_THAT(fake_metal::metal_violations(), IsEmpty());
}

}  // namespace
}  // namespace mccl
