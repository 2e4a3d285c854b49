// The one simulated device of a test process, executed in real time: a sim::Device, a thread that
// calls its run() when it asks for it, and what torch's own MPS stream does besides (a commit after
// every so many kernels, an error of a kernel reported at the next drain).
//
// The device lives from start_fake_device() to the end of the process and is never destroyed:
// torch's registries and the tensors of a finishing interpreter use it until then.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "sim/device.h"
#include "sim/timer_thread.h"

namespace mccl::fake_mps {

struct FakeDeviceOptions {
  sim::DeviceOptions sim;
  TimeNs kernel_ns = 0;         // what every kernel takes, while the CPU is free
  int autocommit_kernels = 64;  // MPSStream commits by itself, too; 0: never
};

class FakeDevice {
 public:
  explicit FakeDevice(const FakeDeviceOptions& options);

  // -- The framework's thread: one at a time, else it is a violation of O3.
  void encode(std::string name, std::vector<sim::MemoryRange> reads,
              std::vector<sim::MemoryRange> writes, std::function<void()> run);
  void commit();
  // Blocks until everything encoded has run; then throws what the first failed kernel threw.
  void synchronize();
  void* allocate(size_t bytes) { return sim_.allocate(bytes); }
  void release(void* data) { sim_.release(data); }

  // -- Any thread.
  bool is_idle() const { return sim_.is_idle(); }
  // Of kernels that are encoded from now on; of those whose name contains `only`, the others take
  // no time.
  void set_kernel_ns(TimeNs kernel_ns, std::string only);
  sim::Device& sim() { return sim_; }
  // What was broken, the simulated device's reports and those of overlapping threads.
  std::vector<std::string> violations() const;
  TimeNs now() const { return clock_.now(); }

  // Held while a thread encodes or commits.
  class Encoding {
   public:
    explicit Encoding(FakeDevice& device);
    ~Encoding();
    Encoding(const Encoding&) = delete;
    Encoding& operator=(const Encoding&) = delete;

   private:
    FakeDevice& device_;
    std::thread::id before_;
  };

 private:
  TimeNs duration_of(const std::string& kernel) const;
  void keep_error(std::exception_ptr error);

  const SystemClock clock_;
  const int autocommit_kernels_;
  std::atomic<int> open_kernels_ = 0;
  std::atomic<uint64_t> overlaps_ = 0;
  std::atomic<std::thread::id> encoder_ = {};
  mutable std::mutex mutex_;  // guards what follows
  TimeNs kernel_ns_;
  std::string only_;
  std::exception_ptr error_;
  sim::Device sim_;
  sim::TimerThread timer_;  // last: it calls what is above
};

// Once per process, before the first tensor.
void start_fake_device(const FakeDeviceOptions& options);
bool is_fake_device_started();
FakeDevice& fake_device();

}  // namespace mccl::fake_mps
