#include "private_device.h"

#include <cstring>
#include <utility>
#include <vector>

#include "host_view.h"

namespace mccl::fake_mps {
namespace {

constexpr TimeNs kCopyNs = 2 * kNsPerMs;  // late enough that nobody who does not wait is lucky

struct Copy {
  sim::MemoryRange tensor;
  std::vector<std::byte> room;
  bool is_read;
  bool is_written;

  void fill() { std::memcpy(room.data(), tensor.data, tensor.bytes); }
  // The device's memory is const to everybody but the device.
  void return_() const { std::memcpy(const_cast<void*>(tensor.data), room.data(), tensor.bytes); }
};

}  // namespace

// Runs copies one after the other, each some time after it was asked for.
class PrivateDevice::CopyQueue {
 public:
  explicit CopyQueue(const FakeDevice& device) : device_(device) {}

  void add(std::function<void()> copy) {
    const std::lock_guard lock(mutex_);
    copies_.push_back(std::move(copy));
    timer_.arm(device_.now() + kCopyNs);
  }

 private:
  void run() {
    std::vector<std::function<void()>> due;
    {
      const std::lock_guard lock(mutex_);
      due.swap(copies_);
    }
    for (const std::function<void()>& copy : due) copy();
  }

  const FakeDevice& device_;
  std::mutex mutex_;
  std::vector<std::function<void()>> copies_;
  sim::TimerThread timer_{[this] { run(); }};  // last: it uses what is above
};

// Of one call. Held by the queue until the copies back are made.
class PrivateDevice::StagedHandOff final : public HandOff,
                                           public std::enable_shared_from_this<StagedHandOff> {
 public:
  StagedHandOff(FakeDevice& device, std::shared_ptr<CopyQueue> queue, std::vector<Copy> copies)
      : device_(device),
        inner_(device.sim().hand_off()),
        queue_(std::move(queue)),
        copies_(std::move(copies)) {}

  void* address(size_t index) { return copies_[index].room.data(); }

  Result<uint64_t> signal_producer() override {
    for (Copy& copy : copies_)
      if (copy.is_read) device_.encode("copy", {copy.tensor}, {}, [&copy] { copy.fill(); });
    const FakeDevice::Encoding encoding(device_);
    return inner_->signal_producer();
  }
  Status wait_consumer(uint64_t ticket) override {
    const FakeDevice::Encoding encoding(device_);
    return inner_->wait_consumer(ticket);
  }
  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    return inner_->await_producer(ticket, std::move(wake));
  }
  void raise_consumer(uint64_t ticket) override {
    queue_->add([self = shared_from_this(), ticket] { self->copy_back(ticket); });
  }
  bool await_returned(std::function<void()> wake) { return returned_.notify(1, std::move(wake)); }

 private:
  void copy_back(uint64_t ticket) {
    for (const Copy& copy : copies_)
      if (copy.is_written) copy.return_();
    inner_->raise_consumer(ticket);
    returned_.raise(1);
  }

  FakeDevice& device_;
  const std::shared_ptr<HandOff> inner_;
  const std::shared_ptr<CopyQueue> queue_;
  std::vector<Copy> copies_;
  sim::SharedEvent returned_;
};

PrivateDevice::PrivateDevice(FakeDevice& device)
    : device_(device), queue_(std::make_shared<CopyQueue>(device)) {}

PrivateDevice::~PrivateDevice() = default;

Result<StagedCall> PrivateDevice::make_staged_call(std::span<const StagedTensor> tensors) {
  std::vector<Copy> copies;
  for (const StagedTensor& staged : tensors) {
    const sim::MemoryRange memory = memory_of(staged.tensor);
    // Garbage where nothing is read: what is not written must not be copied back.
    copies.push_back({.tensor = memory,
                      .room = std::vector<std::byte>(memory.bytes, std::byte{0x7F}),
                      .is_read = staged.is_read,
                      .is_written = staged.is_written});
  }
  const auto hand_off = std::make_shared<StagedHandOff>(device_, queue_, std::move(copies));
  StagedCall call;
  for (size_t index = 0; index < tensors.size(); ++index)
    call.addresses.push_back(hand_off->address(index));
  call.hand_off = hand_off;
  call.await_returned = [hand_off](std::function<void()> wake) {
    return hand_off->await_returned(std::move(wake));
  };
  return call;
}

}  // namespace mccl::fake_mps
