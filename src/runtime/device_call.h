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
  // `ticket` was signalled on the caller's thread.
  DeviceCall(std::shared_ptr<HandOff> hand_off, uint64_t ticket)
      : hand_off_(std::move(hand_off)), ticket_(ticket) {}

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
    has_waiting_stream_.store(true, std::memory_order_release);
    return Status::ok();
  }
  bool has_waiting_stream() const { return has_waiting_stream_.load(std::memory_order_acquire); }

 private:
  const std::shared_ptr<HandOff> hand_off_;
  const uint64_t ticket_;
  std::atomic<bool> is_produced_{false};
  std::atomic<bool> has_waiting_stream_{false};
};

}  // namespace mccl
