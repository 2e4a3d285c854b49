#include "watched_device.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>

#include <utility>

#include "host_view.h"
#include "torch_device.h"

namespace mccl::fake_mps {
namespace {

// A tensor of the caller's and the temporary that the engine works on instead.
struct Detour {
  at::Tensor tensor;
  at::Tensor room;       // undefined when it is not held
  at::Tensor room_view;  // owns nothing

  void encode_copy_back(FakeDevice& device) const {
    device.encode("copy back", {memory_of(room_view)}, {memory_of(tensor)},
                  [from = room_view, to = host_view(tensor)] { to.copy_(from); });
  }
};

// What the calling thread has asked addresses of since its last ticket.
struct Announced {
  std::vector<sim::MemoryRange> memory;
  std::vector<Detour> detours;
};

Announced& announced() {
  thread_local Announced of_this_thread;
  return of_this_thread;
}

}  // namespace

class WatchedHandOff final : public HandOff {
 public:
  explicit WatchedHandOff(FakeDevice& device) : device_(device), inner_(device.sim().hand_off()) {}

  Result<uint64_t> signal_producer() override {
    const TimeNs begin_ns = device_.now();
    const FakeDevice::Encoding encoding(device_);
    Announced call = std::exchange(announced(), {});
    Result<uint64_t> ticket = inner_->signal_producer();
    if (!ticket.is_ok()) return ticket;
    // Writes, also where the engine only reads: the seam does not tell.
    device_.sim().note_memory(ticket.value(), {.writes = std::move(call.memory)});
    const std::lock_guard lock(mutex_);
    if (!call.detours.empty()) detours_[ticket.value()] = std::move(call.detours);
    add("signal_producer", ticket.value(), begin_ns);
    return ticket;
  }

  Status wait_consumer(uint64_t ticket) override {
    const TimeNs begin_ns = device_.now();
    const FakeDevice::Encoding encoding(device_);
    MCCL_RETURN_IF_ERROR(inner_->wait_consumer(ticket));
    std::vector<Detour> detours;
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = detours_.find(ticket); found != detours_.end())
        detours = std::move(found->second);
      detours_.erase(ticket);
      add("wait_consumer", ticket, begin_ns);
    }
    for (const Detour& detour : detours) detour.encode_copy_back(device_);
    return Status::ok();
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
    inner_->raise_consumer(ticket);
    note("raise_consumer", ticket, begin_ns);
  }

  std::vector<HandOver> take_hand_overs() {
    const std::lock_guard lock(mutex_);
    return std::exchange(hand_overs_, {});
  }

 private:
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
  std::vector<HandOver> hand_overs_;
};

WatchedDevice::WatchedDevice(FakeDevice& device)
    : device_(device), hand_off_(std::make_shared<WatchedHandOff>(device)) {}

WatchedDevice::~WatchedDevice() = default;

void* WatchedDevice::host_address(const at::Tensor& tensor) {
  Announced& call = announced();
  at::Tensor used = tensor;
  if (temporary_ != Temporary::None) {
    Detour detour{.tensor = tensor, .room = at::empty_like(tensor), .room_view = {}};
    detour.room.copy_(tensor);
    detour.room_view = host_view(detour.room);
    used = detour.room_view;
    if (temporary_ == Temporary::Released) detour.room.reset();
    call.detours.push_back(std::move(detour));
  }
  call.memory.push_back(memory_of(used));
  return used.unsafeGetTensorImpl()->mutable_data();
}

std::shared_ptr<HandOff> WatchedDevice::current_stream() {
  return hand_off_;
}

std::vector<HandOver> WatchedDevice::take_hand_overs() {
  return hand_off_->take_hand_overs();
}

at::Tensor without_ownership(const at::Tensor& tensor) {
  return at::from_blob(tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(),
                       tensor.strides(), tensor.options().device(torch_device()));
}

}  // namespace mccl::fake_mps
