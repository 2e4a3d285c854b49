#include "torch_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>

#include "fake_device.h"

namespace mccl::fake_mps {
namespace {

void release(void* data) {
  if (data != nullptr) fake_device().release(data);
}

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes > 0 ? fake_device().allocate(bytes) : nullptr;
    return {data, data, &release, torch_device()};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    fake_device().synchronize();
    std::memcpy(destination, source, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override { return {}; }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {}
};

// A torch.Event: how often it was recorded, and how many of these the device has passed.
class Event {
 public:
  void record() {
    const uint64_t number = ++recorded_;
    fake_device().encode("event", {}, {}, [counter = counter_, number] { counter->raise(number); });
    fake_device().commit();
  }
  bool is_reached() const { return counter_->value() >= recorded_; }
  void synchronize() {
    if (!is_reached()) fake_device().synchronize();
  }

 private:
  uint64_t recorded_ = 0;
  std::shared_ptr<sim::SharedEvent> counter_ = std::make_shared<sim::SharedEvent>();
};

// One device with one stream. A wait for an event is nothing: the stream runs in order.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device) const override { return torch_device(); }
  c10::Device getDevice() const override { return torch_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device) const override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const override { return stream(); }
  bool queryStream(const c10::Stream&) const override { return fake_device().is_idle(); }
  void synchronizeStream(const c10::Stream&) const override { fake_device().synchronize(); }
  void synchronizeDevice(c10::DeviceIndex) const override { fake_device().synchronize(); }

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    static_cast<Event*>(*event)->record();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->is_reached();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }

 private:
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, torch_device()); }
};

class Hooks final : public at::MPSHooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasMPS() const override { return true; }
  bool isOnMacOSorNewer(unsigned, unsigned) const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  at::Device getDeviceFromPtr(void*) const override { return torch_device(); }
  // Kernels are the CPU's and draw their numbers where the CPU does.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  at::Allocator* getMPSDeviceAllocator() const override { return device_allocator(); }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  void deviceSynchronize() const override { fake_device().synchronize(); }
  void commitStream() const override { fake_device().commit(); }
  void emptyCache() const override {}
};

}  // namespace

c10::Allocator* device_allocator() {
  static Allocator allocator;
  return &allocator;
}

void register_device() {
  c10::SetAllocator(kDeviceType, device_allocator());
  c10::impl::registerDeviceGuard(kDeviceType, new Guard);  // torch keeps it to the end
  at::MPSHooksRegistry()->Register("MPSHooks", [] { return std::make_unique<Hooks>(); });
}

}  // namespace mccl::fake_mps
