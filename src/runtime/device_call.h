// A call whose memory an asynchronous device also uses: its ticket, and who knows what of it (law
// L13). Shared by the operation, by the caller's Work and by the device that is to bring the
// ticket.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "mccl/device.h"
#include "mccl/status.h"

namespace mccl {

class DeviceCall {
 public:
  // How many waits the streams of a communicator's callers have encoded.
  using StreamWaits = std::atomic<uint64_t>;

  // `ticket` was signalled on the caller's thread.
  DeviceCall(std::shared_ptr<HandOff> hand_off, uint64_t ticket,
             std::shared_ptr<StreamWaits> stream_waits)
      : hand_off_(std::move(hand_off)), ticket_(ticket), stream_waits_(std::move(stream_waits)) {}

  // Asks for the ticket, once. `ring` is called when it comes, unless it is here already: on any
  // thread, also after the call is over.
  static void await_producer(const std::shared_ptr<DeviceCall>& call, std::function<void()> ring) {
    const bool is_here =
        call->hand_off_->await_producer(call->ticket_, [call, ring = std::move(ring)] {
          call->is_produced_.store(true, std::memory_order_release);
          ring();
        });
    if (is_here) call->is_produced_.store(true, std::memory_order_release);
  }

  uint64_t ticket() const { return ticket_; }
  // Whether the engine may touch the memory (O1). What the device wrote before is visible then.
  bool is_produced() const { return is_produced_.load(std::memory_order_acquire); }

  // The engine has done with the memory (O2). Once.
  void raise_consumer() { hand_off_->raise_consumer(ticket_); }

  // The caller's thread: the device's stream waits for raise_consumer().
  Status wait_on_stream() {
    MCCL_RETURN_IF_ERROR(hand_off_->wait_consumer(ticket_));
    uint64_t none = 0;
    stream_wait_.compare_exchange_strong(none, stream_waits_->fetch_add(1) + 1,
                                         std::memory_order_release, std::memory_order_relaxed);
    return Status::ok();
  }
  // The number of the first wait of a stream for it, from 1; 0: no stream waits.
  uint64_t stream_wait() const { return stream_wait_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<HandOff> hand_off_;
  const uint64_t ticket_;
  std::atomic<bool> is_produced_{false};
  const std::shared_ptr<StreamWaits> stream_waits_;
  std::atomic<uint64_t> stream_wait_{0};
};

}  // namespace mccl
