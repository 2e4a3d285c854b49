// What a back end keeps of works on memory of an asynchronous device: counters, and references that
// only a caller's thread may drop, because the device's allocator takes the memory back at once and
// from whichever thread drops the last one (law L13, O3).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

namespace mccl {

struct HandOffStats {
  uint64_t calls = 0;         // on memory of a device
  uint64_t stream_waits = 0;  // wait(): the device's stream waits, the host goes on
  uint64_t host_waits = 0;    // wait(): the host had to wait
};

class DeviceWorks {
 public:
  // Any thread. A kept work refers to this object: after close() none is kept.
  void keep(c10::intrusive_ptr<c10d::Work> work) {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) kept_.push_back(std::move(work));
  }

  // A caller's thread: drops what was kept.
  void drop_kept() {
    std::vector<c10::intrusive_ptr<c10d::Work>> dropped;  // outside of the lock
    const std::lock_guard lock(mutex_);
    dropped.swap(kept_);
  }

  // As drop_kept(), for good.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    drop_kept();
  }

  HandOffStats stats() const { return {calls_, stream_waits_, host_waits_}; }
  void count_call() { ++calls_; }
  void count_stream_wait() { ++stream_waits_; }
  void count_host_wait() { ++host_waits_; }

 private:
  std::mutex mutex_;
  bool is_closed_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> kept_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> stream_waits_{0};
  std::atomic<uint64_t> host_waits_{0};
};

}  // namespace mccl
