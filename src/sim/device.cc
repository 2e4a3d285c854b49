#include "sim/device.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace mccl::sim {
namespace {

constexpr size_t kViolationsMax = 100;
constexpr size_t kBlockBytesMin = 256;

// Set while this thread is inside one of the engine's two calls.
thread_local bool is_in_engine_call = false;

class EngineCall {
 public:
  EngineCall() : before_(std::exchange(is_in_engine_call, true)) {}
  ~EngineCall() { is_in_engine_call = before_; }
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

 private:
  bool before_;
};

std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

bool is_engine() {
  return is_in_engine_call || thread_name().starts_with("mccl");
}

bool overlaps(const MemoryRange& left, const MemoryRange& right) {
  const auto* a = static_cast<const std::byte*>(left.data);
  const auto* b = static_cast<const std::byte*>(right.data);
  return left.bytes > 0 && right.bytes > 0 && a < b + right.bytes && b < a + left.bytes;
}

bool overlaps(const std::vector<MemoryRange>& left, const std::vector<MemoryRange>& right) {
  return std::any_of(left.begin(), left.end(), [&](const MemoryRange& one) {
    return std::any_of(right.begin(), right.end(),
                       [&](const MemoryRange& other) { return overlaps(one, other); });
  });
}

// Whether a kernel disturbs the engine, or is disturbed by it.
bool disturbs(const Kernel& kernel, const TicketMemory& memory) {
  return overlaps(kernel.writes, memory.reads) || overlaps(kernel.writes, memory.writes) ||
         overlaps(kernel.reads, memory.writes);
}

}  // namespace

uint64_t SharedEvent::value() const {
  const std::lock_guard lock(mutex_);
  return value_;
}

void SharedEvent::raise(uint64_t value) {
  std::vector<std::function<void()>> woken;
  {
    const std::lock_guard lock(mutex_);
    value_ = std::max(value_, value);
    const auto end = listeners_.upper_bound(value_);
    for (auto listener = listeners_.begin(); listener != end; ++listener)
      woken.push_back(std::move(listener->second));
    listeners_.erase(listeners_.begin(), end);
  }
  for (const std::function<void()>& wake : woken) wake();
}

bool SharedEvent::notify(uint64_t value, std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  if (value_ >= value) return true;
  listeners_.emplace(value, std::move(wake));
  return false;
}

class Device::Impl : public HandOff {
 public:
  enum class CommandKind : uint8_t { Kernel, Signal, Wait };
  struct Command {
    CommandKind kind = CommandKind::Kernel;
    uint64_t ticket = 0;
    uint64_t place = 0;  // in the order of encoding, from 1
    Kernel kernel = {};
    std::string text() const {
      if (kind == CommandKind::Signal) return "the signal of ticket " + std::to_string(ticket);
      if (kind == CommandKind::Wait) return "the wait for ticket " + std::to_string(ticket);
      return "a kernel (" + kernel.name + ")";
    }
  };

  Impl(const DeviceOptions& options, const Clock& clock, std::function<void(TimeNs)> arm)
      : options_(options),
        clock_(clock),
        arm_(std::move(arm)),
        fault_(options.fault),
        prng_(options.seed) {}

  ~Impl() override {
    for (const auto& [data, bytes] : blocks_) std::free(data);
  }

  // -- The framework's thread.
  void encode(Command command) {
    const std::lock_guard lock(mutex_);
    judge_thread("O3: " + command.text() + " was encoded");
    if (command.kind == CommandKind::Kernel) ++counts_.kernels;
    command.place = ++encoded_;
    open_.push_back(std::move(command));
  }

  void commit() {
    {
      const std::lock_guard lock(mutex_);
      judge_thread("O3: the stream was committed");
      ++counts_.commits;
      std::move(open_.begin(), open_.end(), std::back_inserter(queue_));
      open_.clear();
    }
    arm_(clock_.now());
  }

  bool is_idle() const {
    const std::lock_guard lock(mutex_);
    return done_ == encoded_;
  }

  void synchronize() {
    commit();
    std::unique_lock lock(mutex_);
    ++counts_.drains;
    const uint64_t last = encoded_;
    drained_.wait(lock, [&] { return done_ >= last; });
  }

  void* allocate(size_t bytes) {
    const std::lock_guard lock(mutex_);
    judge_thread("O3: device memory was allocated");
    size_t block_bytes = kBlockBytesMin;
    while (block_bytes < bytes) block_bytes *= 2;
    std::vector<void*>& free_blocks = free_[block_bytes];
    if (!free_blocks.empty()) {
      void* data = free_blocks.back();
      free_blocks.pop_back();
      ++counts_.reused_blocks;
      return data;
    }
    void* data = std::aligned_alloc(kBlockBytesMin, block_bytes);
    MCCL_CHECK(data != nullptr);
    blocks_[data] = block_bytes;
    return data;
  }

  void release(void* data) {
    const std::lock_guard lock(mutex_);
    judge_thread("O3: device memory was released");
    const auto block = blocks_.find(data);
    MCCL_CHECK(block != blocks_.end());
    const std::vector<MemoryRange> range = {{data, block->second}};
    for (const auto& [ticket, state] : in_flight_)
      if (!state.is_waited_for &&
          (overlaps(range, state.memory.reads) || overlaps(range, state.memory.writes)))
        report("held: memory of ticket " + std::to_string(ticket) +
               " was released before the engine had done with it");
    free_[block->second].push_back(data);
  }

  void note_memory(uint64_t ticket, TicketMemory memory) {
    const std::lock_guard lock(mutex_);
    const auto found = in_flight_.find(ticket);
    if (found != in_flight_.end()) found->second.memory = std::move(memory);
  }

  // -- The HandOff.
  Result<uint64_t> signal_producer() override {
    Command command;
    command.kind = CommandKind::Signal;
    {
      const std::lock_guard lock(mutex_);
      command.ticket = ++counts_.tickets;
      in_flight_[command.ticket].place = encoded_ + 1;
    }
    const uint64_t ticket = command.ticket;
    encode(std::move(command));
    if (fault_ != HandOffFault::NoCommit) commit();
    return ticket;
  }

  Status wait_consumer(uint64_t ticket) override {
    if (fault_ == HandOffFault::NoConsumerWait) return Status::ok();
    Command command;
    command.kind = CommandKind::Wait;
    command.ticket = ticket;
    {
      const std::lock_guard lock(mutex_);
      const auto found = in_flight_.find(ticket);
      if (found == in_flight_.end()) return Status::ok();
      found->second.is_waited_for = true;
      ++counts_.device_waits;
    }
    encode(std::move(command));
    return Status::ok();
  }

  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    const EngineCall call;
    {
      const std::lock_guard lock(mutex_);
      const bool is_open = std::any_of(open_.begin(), open_.end(), [&](const Command& command) {
        return command.kind == CommandKind::Signal && command.ticket == ticket;
      });
      if (is_open)
        report("liveness: the engine awaits ticket " + std::to_string(ticket) +
               ", whose signal is not committed");
    }
    if (fault_ == HandOffFault::EarlyProducer) {
      const std::lock_guard lock(mutex_);
      const auto found = in_flight_.find(ticket);
      if (found != in_flight_.end() && !found->second.is_produced)
        report("O1: the engine was told that ticket " + std::to_string(ticket) +
               " has come before its kernels had finished");
      return true;
    }
    return produced_.notify(ticket, std::move(wake));
  }

  void raise_consumer(uint64_t ticket) override {
    const EngineCall call;
    if (fault_ == HandOffFault::EngineEncodes) {
      encode({});
      commit();
    }
    if (fault_ == HandOffFault::NoRaise) return;
    {
      const std::lock_guard lock(mutex_);
      if (in_flight_.erase(ticket) == 0)
        report("O2: ticket " + std::to_string(ticket) + " was raised twice, or is unknown");
    }
    arm_(clock_.now());
  }

  void set_fault(HandOffFault fault) { fault_ = fault; }

  // -- The executor.
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (!is_running_ && !start_next()) return;
      const TimeNs end = running_end_;
      if (clock_.now() < end) {
        lock.unlock();
        return arm_(end);
      }
      const Command command = std::move(running_);
      lock.unlock();
      if (command.kernel.run) command.kernel.run();
      if (command.kind == CommandKind::Signal) produced_.raise(command.ticket);
      lock.lock();
      is_running_ = false;
      ++done_;
      drained_.notify_all();
    }
  }

  DeviceCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

  std::vector<std::string> violations() const {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

 private:
  struct Ticket {
    uint64_t place = 0;  // of its signal
    bool is_produced = false;
    bool is_waited_for = false;  // the stream is ordered behind it: its memory may be released
    TicketMemory memory;
  };

  // Takes the next command that may run; false when there is none.
  bool start_next() {
    if (queue_.empty()) return false;
    Command& next = queue_.front();
    if (next.kind == CommandKind::Wait && in_flight_.contains(next.ticket)) return false;
    running_end_ = clock_.now();
    if (next.kind == CommandKind::Kernel) {
      judge_kernel(next);
      running_end_ += static_cast<TimeNs>(static_cast<double>(next.kernel.duration_ns) *
                                          (1 + options_.delay_jitter * prng_.unit()));
    } else if (next.kind == CommandKind::Signal) {
      const auto found = in_flight_.find(next.ticket);
      if (found != in_flight_.end()) found->second.is_produced = true;
    }
    running_ = std::move(next);
    queue_.pop_front();
    is_running_ = true;
    return true;
  }

  // A kernel that was encoded behind a ticket's signal runs while the engine has the memory.
  void judge_kernel(const Command& command) {
    for (const auto& [ticket, state] : in_flight_)
      if (state.place < command.place && disturbs(command.kernel, state.memory))
        report("O2: " + command.text() + " uses the memory of ticket " + std::to_string(ticket) +
               ", which the engine has not given back");
  }

  void judge_thread(const std::string& what) {
    if (is_engine()) report(what + " by the engine, on thread \"" + thread_name() + "\"");
  }

  void report(std::string violation) {
    if (violations_.size() < kViolationsMax) violations_.push_back(std::move(violation));
  }

  const DeviceOptions options_;
  const Clock& clock_;
  const std::function<void(TimeNs)> arm_;
  std::atomic<HandOffFault> fault_;
  mutable std::mutex mutex_;  // guards what follows, but for the event
  std::condition_variable drained_;
  Prng prng_;
  std::vector<Command> open_;
  std::deque<Command> queue_;
  Command running_;
  TimeNs running_end_ = 0;
  bool is_running_ = false;
  uint64_t encoded_ = 0;
  uint64_t done_ = 0;
  SharedEvent produced_;
  std::map<uint64_t, Ticket> in_flight_;  // from the signal's encoding to the raise
  std::map<void*, size_t> blocks_;
  std::map<size_t, std::vector<void*>> free_;  // by block size, the last freed at the back
  DeviceCounts counts_;
  std::vector<std::string> violations_;
};

Device::Device(const DeviceOptions& options, const Clock& clock, std::function<void(TimeNs)> arm)
    : impl_(std::make_shared<Impl>(options, clock, std::move(arm))) {}

Device::~Device() = default;

void Device::encode(Kernel kernel) {
  Impl::Command command;
  command.kernel = std::move(kernel);
  impl_->encode(std::move(command));
}

void Device::commit() {
  impl_->commit();
}

bool Device::is_idle() const {
  return impl_->is_idle();
}

void Device::synchronize() {
  impl_->synchronize();
}

void* Device::allocate(size_t bytes) {
  return impl_->allocate(bytes);
}

void Device::release(void* data) {
  impl_->release(data);
}

std::shared_ptr<HandOff> Device::hand_off() {
  return impl_;
}

void Device::note_memory(uint64_t ticket, TicketMemory memory) {
  impl_->note_memory(ticket, std::move(memory));
}

void Device::set_fault(HandOffFault fault) {
  impl_->set_fault(fault);
}

void Device::run() {
  impl_->run();
}

DeviceCounts Device::counts() const {
  return impl_->counts();
}

std::vector<std::string> Device::violations() const {
  return impl_->violations();
}

}  // namespace mccl::sim
