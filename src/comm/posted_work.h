// A Work and the engine's end of it.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "comm/driver.h"
#include "mccl/communicator.h"
#include "runtime/point_to_point.h"

namespace mccl {

class PostedWork final : public Work, public MessageSink {
 public:
  PostedWork(std::shared_ptr<DriverDoor> door, uint64_t sequence,
             std::function<void(const Status&)> on_done)
      : door_(std::move(door)), sequence_(sequence), on_done_(std::move(on_done)) {}

  bool is_done() const override { return is_done_.load(std::memory_order_acquire); }
  Status status() const override { return is_done() ? status_ : Status::ok(); }
  uint64_t sequence() const override { return sequence_; }

  int source_rank() const override { return is_done() ? source_rank_ : -1; }

  // The device's call whose memory the work uses; `waits_on_stream`: its stream may wait for the
  // work. Before the work is posted.
  void set_device(std::shared_ptr<DeviceCall> device, bool waits_on_stream) {
    device_ = std::move(device);
    waits_on_stream_ = waits_on_stream;
  }

  Result<bool> wait_on_stream() override {
    if (is_done()) return status_.is_ok() ? Result<bool>(true) : status_;
    // A forked child has no engine that would let its stream go on: wait() says so.
    if (!waits_on_stream_ || !door_->is_of_this_process()) return false;
    MCCL_RETURN_IF_ERROR(device_->wait_on_stream());
    return true;
  }

  // Of a receive: `rank_of` says which rank a process is; used before the work is done.
  void set_rank_of(std::function<int(uint64_t)> rank_of) { rank_of_ = std::move(rank_of); }
  void on_source(uint64_t peer_process) override {
    if (rank_of_) source_rank_ = rank_of_(peer_process);
  }

  Status wait(int64_t timeout_ns, const std::function<bool()>& interrupted) override {
    if (!is_done()) {
      const Status waited = door_->wait(is_done_, timeout_ns, interrupted);
      if (!waited.is_ok())
        return Status(waited.code(), fmt::format("operation {}: {}", sequence_, waited.message()));
    }
    return status_;
  }

  void on_complete(const Status& status) override {
    status_ = status;
    if (device_ != nullptr) device_->raise_consumer();
    // The caller's function first: whoever sees the work done may destroy what it refers to.
    if (on_done_) on_done_(status_);
    on_done_ = {};
    is_done_.store(true, std::memory_order_release);
  }

 private:
  std::shared_ptr<DriverDoor> door_;
  uint64_t sequence_;
  std::function<void(const Status&)> on_done_;
  std::function<int(uint64_t)> rank_of_;
  std::shared_ptr<DeviceCall> device_;
  bool waits_on_stream_ = false;
  int source_rank_ = -1;  // published by is_done_, like the status
  Status status_;
  std::atomic<bool> is_done_{false};
};

}  // namespace mccl
