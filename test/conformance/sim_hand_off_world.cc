// The simulated device (src/sim/device.h), whose own judge must find nothing.
#include <utility>

#include "base/clock.h"
#include "conformance/hand_off_world.h"
#include "sim/device.h"

namespace mccl {
namespace {

class SimHandOffWorld final : public HandOffWorld {
 public:
  int64_t* device_cell(size_t index) override { return &cells_[index]; }
  Call begin_call(size_t cell) override { return {device_.hand_off(), &cells_[cell]}; }
  void encode(std::function<void()> kernel) override {
    device_.encode({.name = "kernel", .run = std::move(kernel)});
  }
  void commit() override { device_.commit(); }
  void run() override { device_.run(); }
  std::vector<std::string> violations() override { return device_.violations(); }

 private:
  ManualClock clock_;  // stands still: kernels take no time
  sim::Device device_{{}, clock_, [](TimeNs) {}};
  std::vector<int64_t> cells_ = std::vector<int64_t>(kCellCount, 0);
};

INSTANTIATE_TEST_SUITE_P(Sim, HandOffTest,
                         ::testing::Values(HandOffKind{
                             "sim", [] { return std::make_unique<SimHandOffWorld>(); }}));

}  // namespace
}  // namespace mccl
