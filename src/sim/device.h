// A simulated asynchronous device: an in-order stream whose commands are encoded into an open batch
// and run only after a commit, shared events, a caching allocator that hands out at once what was
// freed last. It reports whatever breaks the rules of the hand-off (law L13), even where the
// numbers come out right.
//
// It has no thread: run() does what is due, `arm` asks for the next run(). In virtual time the
// world calls it, in real time a thread of the test's. Any thread may call anything, one at a time
// run(); `arm` and kernels are called without a lock held, kernels by run() alone.
//
// O3 is judged by who encodes, commits, allocates or releases: a thread whose name begins with
// "mccl" is the engine's, and so is whatever happens inside the engine's two calls.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "mccl/device.h"

namespace mccl::sim {

// A counter that both sides raise and wait for; it never falls. Any thread.
class SharedEvent {
 public:
  uint64_t value() const;
  void raise(uint64_t value);
  // Whether the value is reached; if not, `wake` is called once when it is, by whoever raises it.
  bool notify(uint64_t value, std::function<void()> wake);

 private:
  mutable std::mutex mutex_;
  uint64_t value_ = 0;
  std::multimap<uint64_t, std::function<void()>> listeners_;
};

// Rules that a test may break, one at a time.
enum class HandOffFault : uint8_t {
  None,
  EarlyProducer,   // O1: the engine is told at once that the kernels have finished
  NoConsumerWait,  // O2: wait_consumer() encodes nothing
  NoCommit,        // the signal is encoded and not committed
  EngineEncodes,   // O3: raise_consumer() encodes and commits on the stream
  NoRaise,         // raise_consumer() does not raise
};

struct DeviceOptions {
  uint64_t seed = 1;
  double delay_jitter = 0;  // a kernel takes duration * (1 + U(0, jitter))
  HandOffFault fault = HandOffFault::None;
};

struct MemoryRange {
  const void* data = nullptr;
  size_t bytes = 0;
};

// What the engine reads, and what it writes.
struct TicketMemory {
  std::vector<MemoryRange> reads = {};
  std::vector<MemoryRange> writes = {};
};

struct Kernel {
  std::string name;
  TimeNs duration_ns = 0;
  std::vector<MemoryRange> reads = {};
  std::vector<MemoryRange> writes = {};
  std::function<void()> run = {};  // at the end of its time
};

struct DeviceCounts {
  uint64_t kernels = 0;
  uint64_t commits = 0;
  uint64_t drains = 0;  // synchronize()
  uint64_t reused_blocks = 0;
  uint64_t tickets = 0;
  uint64_t device_waits = 0;  // encoded by wait_consumer()
};

class Device {
 public:
  // `clock` outlives the device. `arm(time)` asks that run() be called at `time_ns`, or soon if
  // that has passed.
  Device(const DeviceOptions& options, const Clock& clock, std::function<void(TimeNs)> arm);
  ~Device();

  // -- The framework's thread.
  void encode(Kernel kernel);
  void commit();
  // Whether everything encoded has run.
  bool is_idle() const;
  // Commits, counts a drain, and waits until everything encoded has run. Only where another thread
  // calls run().
  void synchronize();

  // Blocks come back at once and to whoever asks next: stream order protects the device's own
  // kernels, nothing protects anybody else. From the system when none is free.
  void* allocate(size_t bytes);
  void release(void* data);

  std::shared_ptr<HandOff> hand_off();
  // Which memory the engine uses under the ticket until it is raised: kernels and releases are
  // judged by it. Called once, after signal_producer().
  void note_memory(uint64_t ticket, TicketMemory memory);

  // Breaks another rule from now on, or none.
  void set_fault(HandOffFault fault);

  // -- Whoever executes the device.
  void run();

  DeviceCounts counts() const;
  // What was broken, in words, each with its rule: "O1: ...". At most a hundred are kept.
  std::vector<std::string> violations() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with the HandOff
};

}  // namespace mccl::sim
