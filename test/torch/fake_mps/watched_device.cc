#include "watched_device.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <cstdlib>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "host_view.h"
#include "torch_device.h"
#ifdef HAS_FAKE_METAL
#include "metal/metal_over_sim.h"
#endif

namespace mccl::fake_mps {
namespace {

// A tensor of the caller's and the temporary that the engine works on instead.
struct Detour {
  at::Tensor tensor;
  at::Tensor room;       // undefined when it is not held
  at::Tensor room_view;  // owns nothing

  // By the engine, which has the memory of both.
  void copy_back() const { host_view(tensor).copy_(room_view); }
};

// A tensor whose address the calling thread has asked for since its last ticket.
struct Asked {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  sim::MemoryRange memory;  // the tensor's
  at::Tensor used;          // what the engine is told: a view of that or of a temporary
  std::optional<Detour> detour = {};

  // Of the tensor of a call that was refused, and is gone: its memory is somebody else's now.
  bool is_stale() const { return storage.expired(); }
  bool is_same(const sim::MemoryRange& other) const {
    return memory.data == other.data && memory.bytes == other.bytes && !is_stale();
  }
  void* address() const { return used.unsafeGetTensorImpl()->mutable_data(); }
};

std::vector<Asked>& asked_addresses() {
  thread_local std::vector<Asked> of_this_thread;
  return of_this_thread;
}

// The device's own, or the Metal file's over the device: MCCL_FAKE_MPS_HAND_OFF=metal.
std::shared_ptr<HandOff> choose_hand_off(FakeDevice& device) {
  const char* chosen = std::getenv("MCCL_FAKE_MPS_HAND_OFF");
  const std::string_view name = chosen == nullptr ? "sim" : chosen;
  if (name == "sim") return device.sim().hand_off();
#ifdef HAS_FAKE_METAL
  if (name == "metal") return fake_metal::make_metal_over_sim(device.sim())->current_stream();
#endif
  TORCH_CHECK_VALUE(false, "MCCL_FAKE_MPS_HAND_OFF is \"", name,
                    "\"; this build has sim, and metal where clang-16 is");
}

}  // namespace

class WatchedHandOff final : public HandOff {
 public:
  explicit WatchedHandOff(FakeDevice& device) : device_(device), inner_(choose_hand_off(device)) {}

  Result<uint64_t> signal_producer() override {
    drop_finished();
    const TimeNs begin_ns = device_.now();
    const FakeDevice::Encoding encoding(device_);
    Result<uint64_t> ticket = inner_->signal_producer();
    if (!ticket.is_ok()) return ticket;
    sim::TicketMemory memory;
    std::vector<Detour> detours;
    for (Asked& asked : std::exchange(asked_addresses(), {})) {
      if (asked.is_stale()) continue;
      memory.writes.push_back(asked.memory);  // also where the engine only reads: who knows
      if (!asked.detour.has_value()) continue;
      memory.writes.push_back(memory_of(asked.detour->room_view));
      detours.push_back(*std::move(asked.detour));
    }
    device_.sim().note_memory(ticket.value(), std::move(memory));
    const std::lock_guard lock(mutex_);
    detours_[ticket.value()] = std::move(detours);
    add("signal_producer", ticket.value(), begin_ns);
    return ticket;
  }

  Status wait_consumer(uint64_t ticket) override {
    drop_finished();
    const TimeNs begin_ns = device_.now();
    const FakeDevice::Encoding encoding(device_);
    const Status status = inner_->wait_consumer(ticket);
    note("wait_consumer", ticket, begin_ns);
    return status;
  }

  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    const TimeNs begin_ns = device_.now();
    const bool is_here =
        inner_->await_producer(ticket, [this, ticket, begin_ns, wake = std::move(wake)] {
          note("await_producer", ticket, begin_ns);
          wake();
        });
    if (is_here) note("await_producer", ticket, begin_ns);
    return is_here;
  }

  void raise_consumer(uint64_t ticket) override {
    const TimeNs begin_ns = device_.now();
    std::vector<Detour> detours;
    {
      const std::lock_guard lock(mutex_);
      detours = std::move(detours_[ticket]);
      detours_.erase(ticket);
      for (const Detour& detour : detours) detour.copy_back();
    }
    inner_->raise_consumer(ticket);
    // Only now: the caller's thread may drop them at once.
    const std::lock_guard lock(mutex_);
    std::move(detours.begin(), detours.end(), std::back_inserter(finished_));
    add("raise_consumer", ticket, begin_ns);
  }

  std::vector<HandOver> take_hand_overs() {
    const std::lock_guard lock(mutex_);
    return std::exchange(hand_overs_, {});
  }

 private:
  // What temporaries held is released where device memory may be: on the caller's thread.
  void drop_finished() {
    std::vector<Detour> dropped;  // outside of the lock
    const std::lock_guard lock(mutex_);
    dropped.swap(finished_);
  }
  void note(const char* call, uint64_t ticket, TimeNs begin_ns) {
    const std::lock_guard lock(mutex_);
    add(call, ticket, begin_ns);
  }
  void add(const char* call, uint64_t ticket, TimeNs begin_ns) {
    if (hand_overs_.size() == kHandOversMax) hand_overs_.clear();
    hand_overs_.push_back(
        {.call = call, .ticket = ticket, .begin_ns = begin_ns, .end_ns = device_.now()});
  }

  static constexpr size_t kHandOversMax = 100'000;
  FakeDevice& device_;
  const std::shared_ptr<HandOff> inner_;
  std::mutex mutex_;  // guards what follows
  std::map<uint64_t, std::vector<Detour>> detours_;
  std::vector<Detour> finished_;
  std::vector<HandOver> hand_overs_;
};

WatchedDevice::WatchedDevice(FakeDevice& device)
    : device_(device), hand_off_(std::make_shared<WatchedHandOff>(device)) {}

WatchedDevice::~WatchedDevice() = default;

void* WatchedDevice::host_address(const at::Tensor& tensor) {
  const sim::MemoryRange memory = memory_of(tensor);
  std::vector<Asked>& before = asked_addresses();
  for (const Asked& asked : before)  // one call asks several times
    if (asked.is_same(memory)) return asked.address();
  Asked asked{.storage = c10::weak_intrusive_ptr(tensor.storage().getWeakStorageImpl()),
              .memory = memory,
              .used = host_view(tensor)};
  if (temporary_ != Temporary::None) {
    Detour detour{.tensor = tensor, .room = at::empty_like(tensor), .room_view = {}};
    detour.room.copy_(tensor);
    asked.used = detour.room_view = host_view(detour.room);
    if (temporary_ == Temporary::Released) detour.room.reset();
    asked.detour = std::move(detour);
  }
  before.push_back(std::move(asked));
  return before.back().address();
}

std::shared_ptr<HandOff> WatchedDevice::current_stream() {
  return hand_off_;
}

std::vector<HandOver> WatchedDevice::take_hand_overs() {
  return hand_off_->take_hand_overs();
}

std::vector<std::string> hand_off_violations() {
#ifdef HAS_FAKE_METAL
  return fake_metal::metal_violations();
#else
  return {};
#endif
}

at::Tensor without_ownership(const at::Tensor& tensor) {
  return at::from_blob(tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(),
                       tensor.strides(), tensor.options().device(torch_device()));
}

}  // namespace mccl::fake_mps
