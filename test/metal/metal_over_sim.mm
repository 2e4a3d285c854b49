#include "metal/metal_over_sim.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/check.h"
#import "metal/fake_metal.h"
#import "metal/fake_torch.h"
#include "metal_device.h"

namespace mccl::fake_metal {
namespace {

// Blocks the calling thread, the device's own, as a GPU's queue stands at a wait.
void wait_for(const Command& command) {
  if (command.is_ready()) return;
  std::mutex mutex;
  std::condition_variable reached;
  bool is_reached = false;
  command.awaited->notify(
      command.value,
      [&](uint64_t) {
        // Notified under the lock: what is waited for is gone as soon as it is released.
        const std::lock_guard inner(mutex);
        is_reached = true;
        reached.notify_one();
      },
      Event::IfReached::CallsBlock);
  std::unique_lock lock(mutex);
  reached.wait(lock, [&] { return is_reached; });
}

class SimSink final : public CommandSink {
 public:
  explicit SimSink(sim::Device& device) : device_(device) {}

  void encode(Command command) override {
    sim::Kernel kernel;
    kernel.name = command.awaited != nullptr ? "metal wait" : "metal signal";
    kernel.run = [command = std::move(command)] {
      wait_for(command);
      if (command.run) command.run();
    };
    device_.encode(std::move(kernel));
  }

  void commit() override { device_.commit(); }

 private:
  sim::Device& device_;
};

struct MetalOverSim {
  explicit MetalOverSim(sim::Device& device)
      : stream([&device] { return std::make_unique<SimSink>(device); }, make_device(gpu),
               gpu.violations(), Stream::Kernels::Elsewhere) {
    set_current_stream(make_torch_stream(stream));
    // Every storage is the host's memory at its own address.
    set_shared_buffers([](const void* data) { return data; });
  }

  Gpu gpu;
  Stream stream;
};

MetalOverSim*& only() {
  static MetalOverSim* one = nullptr;  // torch's symbols are the process's too
  return one;
}

}  // namespace

std::shared_ptr<TensorDevice> make_metal_over_sim(sim::Device& device) {
  MCCL_CHECK(only() == nullptr);
  only() = new MetalOverSim(device);
  return make_metal_device();
}

std::vector<std::string> metal_violations() {
  return only() == nullptr ? std::vector<std::string>() : only()->gpu.violations().list();
}

}  // namespace mccl::fake_metal
