#include "fake_device.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace mccl::fake_mps {

FakeDevice::FakeDevice(const FakeDeviceOptions& options)
    : autocommit_kernels_(options.autocommit_kernels),
      kernel_ns_(options.kernel_ns),
      sim_(options.sim, clock_, [this](TimeNs time_ns) { timer_.arm(time_ns); }),
      timer_([this] {
        at::internal::lazy_init_num_threads();  // kernels use as many as torch.set_num_threads()
        sim_.run();
      }) {}

void FakeDevice::encode(std::string name, std::vector<sim::MemoryRange> reads,
                        std::vector<sim::MemoryRange> writes, std::function<void()> run) {
  const Encoding encoding(*this);
  const TimeNs duration = duration_of(name);
  sim_.encode({.name = std::move(name),
               .duration_ns = duration,
               .reads = std::move(reads),
               .writes = std::move(writes),
               .run = [this, run = std::move(run)] {
                 try {
                   run();
                 } catch (...) {
                   keep_error(std::current_exception());
                 }
               }});
  if (autocommit_kernels_ > 0 && ++open_kernels_ >= autocommit_kernels_) {
    open_kernels_ = 0;
    sim_.commit();
  }
}

void FakeDevice::commit() {
  const Encoding encoding(*this);
  open_kernels_ = 0;
  sim_.commit();
}

void FakeDevice::synchronize() {
  open_kernels_ = 0;
  sim_.synchronize();
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::vector<std::string> FakeDevice::violations() const {
  std::vector<std::string> found = sim_.violations();
  if (const uint64_t overlaps = overlaps_; overlaps > 0)
    found.push_back("O3: two threads encoded at the same time, " + std::to_string(overlaps) +
                    " times");
  return found;
}

void FakeDevice::set_kernel_ns(TimeNs kernel_ns, std::string only) {
  const std::lock_guard lock(mutex_);
  kernel_ns_ = kernel_ns;
  only_ = std::move(only);
}

TimeNs FakeDevice::duration_of(const std::string& kernel) const {
  const std::lock_guard lock(mutex_);
  return kernel.find(only_) == std::string::npos ? 0 : kernel_ns_;
}

void FakeDevice::keep_error(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
}

FakeDevice::Encoding::Encoding(FakeDevice& device)
    : device_(device), before_(device.encoder_.exchange(std::this_thread::get_id())) {
  if (before_ != std::thread::id() && before_ != std::this_thread::get_id()) ++device_.overlaps_;
}

FakeDevice::Encoding::~Encoding() {
  device_.encoder_ = before_;
}

namespace {

std::atomic<FakeDevice*>& device_slot() {
  static std::atomic<FakeDevice*> slot = nullptr;
  return slot;
}

}  // namespace

void start_fake_device(const FakeDeviceOptions& options) {
  MCCL_CHECK(!is_fake_device_started());
  device_slot() = new FakeDevice(options);
}

bool is_fake_device_started() {
  return device_slot() != nullptr;
}

FakeDevice& fake_device() {
  FakeDevice* device = device_slot();
  MCCL_CHECK(device != nullptr);
  return *device;
}

}  // namespace mccl::fake_mps
