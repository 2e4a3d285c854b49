// What a back end keeps of works on memory of an asynchronous device: counters, and references that
// only a caller's thread may drop, because the device's allocator takes the memory back at once and
// from whichever thread drops the last one (law L13, O3).
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "mccl/status.h"

namespace mccl {

struct HandOffStats {
  uint64_t calls = 0;         // on memory of a device
  uint64_t stream_waits = 0;  // wait(): the device's stream waits, the host goes on
  uint64_t host_waits = 0;    // wait(): the host had to wait
};

class DeviceWorks {
 public:
  // `heir`, where there is one, keeps what comes after close(): works that a callback has held up.
  // `report` is told, once, of the first error that no wait() can raise any more.
  explicit DeviceWorks(std::shared_ptr<DeviceWorks> heir,
                       std::function<void(const Status&)> report = {})
      : heir_(std::move(heir)), report_(std::move(report)) {}

  // Any thread. A kept work refers to this object: after close() none is kept here.
  void keep(c10::intrusive_ptr<c10d::Work> work) {
    {
      const std::lock_guard lock(mutex_);
      if (!is_closed_) return kept_.push_back(std::move(work));
    }
    if (heir_ != nullptr) heir_->keep(std::move(work));
  }

  // A caller's thread: drops what was kept.
  void drop_kept() {
    if (heir_ != nullptr) heir_->drop_kept();
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

  // A work of this group that is not over is left to the device's stream: the caller's wait() has
  // returned. Its operation is over. Any thread.
  void begin_stream_wait() {
    const std::lock_guard lock(mutex_);
    ++streams_waiting_;
  }
  void end_stream_wait(const Status& status) {
    std::function<void(const Status&)> report;
    {
      const std::lock_guard lock(mutex_);
      if (!status.is_ok()) report = std::exchange(report_, {});
      if (--streams_waiting_ == 0) cv_.notify_all();
    }
    if (report) report(status);
  }
  // Blocks until no work is left to the stream: what wait() has promised is kept before the group
  // goes. Every operation ends by its time limit.
  void await_streams() {
    std::unique_lock lock(mutex_);
    cv_.wait(lock, [this] { return streams_waiting_ == 0; });
  }

  HandOffStats stats() const { return {calls_, stream_waits_, host_waits_}; }
  void count_call() { ++calls_; }
  void count_stream_wait() { ++stream_waits_; }
  void count_host_wait() { ++host_waits_; }

 private:
  const std::shared_ptr<DeviceWorks> heir_;
  std::mutex mutex_;
  std::function<void(const Status&)> report_;
  std::condition_variable cv_;
  int64_t streams_waiting_ = 0;
  bool is_closed_ = false;
  std::vector<c10::intrusive_ptr<c10d::Work>> kept_;
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> stream_waits_{0};
  std::atomic<uint64_t> host_waits_{0};
};

}  // namespace mccl
