// Tickets are the values of one shared event that the stream signals: they are encoded in the order
// of their numbers, so the event only grows.
//
// The way back is another matter. Operations end in any order: were the consumers' side one counter
// too, raising the ticket of a later call would release the kernels behind an earlier one. So each
// ticket in flight has an event of its own, which the next ticket uses again with the next value.
// Waits for an old value pass for ever, so a wait may be encoded before the raise, behind it, or
// never, and nothing has to know which. As many events exist as tickets were ever in flight at
// once.
//
// The engine's two calls touch events only, never the stream.
//
// test/metal runs this file on Linux over stand-ins for Metal's objects, in the suite that judges
// every hand-off, and breaks it in the ways of test/metal/mutants.sh.
#import "device/metal_hand_off.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "device/metal_event.h"

namespace mccl {
namespace {

// Far above what an engine has in flight: tickets that nobody raises must not eat a machine.
constexpr size_t kTicketsInFlightMax = 65536;

struct ConsumerEvent {
  id<MTLSharedEvent> event = nil;
  uint64_t value = 0;
};

class MetalHandOff final : public HandOff {
 public:
  MetalHandOff(id<MTLDevice> device, std::shared_ptr<MetalStream> stream,
               id<MTLSharedEvent> produced, MTLSharedEventListener* listener)
      : device_(device), stream_(std::move(stream)), produced_(produced), listener_(listener) {}

  Result<uint64_t> signal_producer() override {
    @autoreleasepool {
      // Numbers are given in the order in which their signals are encoded.
      const std::lock_guard encoding(encoding_mutex_);
      Result<ConsumerEvent> consumer = take_consumer_event();
      MCCL_RETURN_IF_ERROR(consumer.status());
      const uint64_t ticket = ++last_ticket_;
      const Status status = stream_->encode(
          AfterEncoding::Commit,
          [&](id<MTLCommandBuffer> buffer) { [buffer encodeSignalEvent:produced_ value:ticket]; });
      const std::lock_guard lock(mutex_);
      if (!status.is_ok()) {
        free_.push_back(consumer.value());  // nobody waits for its value: the next one is larger
        return status;
      }
      in_flight_.emplace(ticket, consumer.value());
      return ticket;
    }
  }

  Status wait_consumer(uint64_t ticket) override {
    @autoreleasepool {
      ConsumerEvent consumer;
      {
        const std::lock_guard lock(mutex_);
        const auto found = in_flight_.find(ticket);
        // Raised already: what the engine wrote happened before this, and the GPU sees what the
        // CPU wrote before a commit.
        if (found == in_flight_.end()) return Status::ok();
        consumer = found->second;
      }
      return stream_->encode(AfterEncoding::KeepOpen, [&](id<MTLCommandBuffer> buffer) {
        [buffer encodeWaitForEvent:consumer.event value:consumer.value];
      });
    }
  }

  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    @autoreleasepool {
      return await_metal_event(produced_, ticket, listener_, std::move(wake));
    }
  }

  void raise_consumer(uint64_t ticket) override {
    @autoreleasepool {
      ConsumerEvent consumer;
      {
        const std::lock_guard lock(mutex_);
        const auto found = in_flight_.find(ticket);
        MCCL_CHECK(found != in_flight_.end());  // once for every ticket
        consumer = found->second;
        in_flight_.erase(found);
      }
      raise_metal_event(consumer.event, consumer.value);
      const std::lock_guard lock(mutex_);
      free_.push_back(consumer);
    }
  }

 private:
  // An event that no ticket uses, and the value that its next ticket raises it to.
  Result<ConsumerEvent> take_consumer_event() {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      ConsumerEvent consumer = free_.back();
      free_.pop_back();
      ++consumer.value;
      return consumer;
    }
    if (in_flight_.size() >= kTicketsInFlightMax)
      return Status(StatusCode::Internal,
                    std::to_string(in_flight_.size()) +
                        " collectives of one Metal stream are in flight, at most " +
                        std::to_string(kTicketsInFlightMax) + "; wait for some of them");
    id<MTLSharedEvent> event = [device_ newSharedEvent];
    if (event == nil)
      return Status(StatusCode::Internal, "Metal makes no more shared events; " +
                                              std::to_string(in_flight_.size()) +
                                              " are in use by collectives in flight");
    return ConsumerEvent{event, 1};
  }

  const id<MTLDevice> device_;
  const std::shared_ptr<MetalStream> stream_;  // shared: others encode on it too
  const id<MTLSharedEvent> produced_;
  MTLSharedEventListener* const listener_;

  std::mutex encoding_mutex_;  // taken before the stream's own; never by the engine
  uint64_t last_ticket_ = 0;

  std::mutex mutex_;  // for a few instructions only: the engine takes it; guards what follows
  std::unordered_map<uint64_t, ConsumerEvent> in_flight_;
  std::vector<ConsumerEvent> free_;
};

}  // namespace

Result<std::shared_ptr<HandOff>> make_metal_hand_off(id<MTLDevice> device,
                                                     std::shared_ptr<MetalStream> stream) {
  @autoreleasepool {
    id<MTLSharedEvent> produced = [device newSharedEvent];
    MTLSharedEventListener* listener = make_metal_listener();
    if (produced == nil || listener == nil)
      return Status(StatusCode::Unsupported,
                    "this Metal device makes no shared events, which order the CPU's and the GPU's "
                    "access to tensors; use CPU tensors");
    return std::shared_ptr<HandOff>(
        std::make_shared<MetalHandOff>(device, std::move(stream), produced, listener));
  }
}

}  // namespace mccl
