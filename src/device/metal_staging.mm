// One event per call tells its whole story by its value: 1, the kernels that write the originals
// have finished (the framework's stream); 2, the copies are filled (our queue in); 3, the originals
// are written again (our queue out), or the call failed before the engine could begin.
//
//   stream     kernels, signal 1 ................................. wait 3, kernels
//   queue in                   wait 1, copy, signal 2
//   engine                                            awaits 2, works, raises
//   queue out                                                            copy, signal 3
//
// Were in and out one queue, a copy back could stand behind a later call's wait for kernels that
// stand behind this copy back, and neither would come.
#import "device/metal_staging.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/check.h"
#include "device/metal_event.h"

namespace mccl {
namespace {

constexpr size_t kAlignmentBytes = 256;
// Copies of 4 GiB and more fail without an error (PyTorch's issue 124335).
constexpr size_t kCopyBytesMax = size_t{1} << 31;

enum Stage : uint64_t { kProduced = 1, kFilled = 2, kReturned = 3 };

struct Queues {
  id<MTLCommandQueue> in = nil;
  id<MTLCommandQueue> out = nil;
};

// What the copies of one call need; blocks hold it until they have run.
struct StagedState {
  id<MTLSharedEvent> event = nil;
  id<MTLBuffer> copies = nil;
  std::vector<StagedRegion> regions;
  std::vector<size_t> offsets;  // of each region in `copies`
};

enum class Direction : uint8_t { In, Out };

void encode_copy(id<MTLBlitCommandEncoder> encoder, const StagedState& state, size_t index,
                 Direction direction) {
  const StagedRegion& region = state.regions[index];
  for (size_t done = 0; done < region.bytes; done += kCopyBytesMax) {
    const size_t bytes = std::min(kCopyBytesMax, region.bytes - done);
    const size_t original = region.offset_bytes + done;
    const size_t copy = state.offsets[index] + done;
    if (direction == Direction::In)
      [encoder copyFromBuffer:region.buffer
                 sourceOffset:original
                     toBuffer:state.copies
            destinationOffset:copy
                         size:bytes];
    else
      [encoder copyFromBuffer:state.copies
                 sourceOffset:copy
                     toBuffer:region.buffer
            destinationOffset:original
                         size:bytes];
  }
}

void commit_copies(id<MTLCommandQueue> queue, const std::shared_ptr<StagedState>& state,
                   Direction direction) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  if (direction == Direction::In) [buffer encodeWaitForEvent:state->event value:kProduced];
  id<MTLBlitCommandEncoder> encoder = [buffer blitCommandEncoder];
  for (size_t index = 0; index < state->regions.size(); ++index) {
    const StagedRegion& region = state->regions[index];
    if (direction == Direction::In ? region.is_read : region.is_written)
      encode_copy(encoder, *state, index, direction);
  }
  [encoder endEncoding];
  [buffer encodeSignalEvent:state->event value:direction == Direction::In ? kFilled : kReturned];
  // The copies and the event live until the GPU has done with them, whatever the caller drops.
  const std::shared_ptr<StagedState> held = state;
  [buffer addCompletedHandler:^(id<MTLCommandBuffer>) {
    (void)held;
  }];
  [buffer commit];
}

void commit_signal(id<MTLCommandQueue> queue, const StagedState& state) {
  id<MTLCommandBuffer> buffer = [queue commandBuffer];
  [buffer encodeSignalEvent:state.event value:kReturned];
  [buffer commit];
}

class StagedHandOff final : public HandOff {
 public:
  StagedHandOff(std::shared_ptr<MetalStream> stream, Queues queues,
                MTLSharedEventListener* listener, std::shared_ptr<StagedState> state)
      : stream_(std::move(stream)),
        queues_(queues),
        listener_(listener),
        state_(std::move(state)) {}

  Result<uint64_t> signal_producer() override {
    @autoreleasepool {
      MCCL_CHECK(!is_signalled_);  // one ticket
      is_signalled_ = true;
      MCCL_RETURN_IF_ERROR(stream_->encode(AfterEncoding::Commit, [&](id<MTLCommandBuffer> buffer) {
        [buffer encodeSignalEvent:state_->event value:kProduced];
      }));
      commit_copies(queues_.in, state_, Direction::In);
      return kTicket;
    }
  }

  Status wait_consumer(uint64_t ticket) override {
    @autoreleasepool {
      MCCL_CHECK_EQ(ticket, kTicket);
      return stream_->encode(AfterEncoding::KeepOpen, [&](id<MTLCommandBuffer> buffer) {
        [buffer encodeWaitForEvent:state_->event value:kReturned];
      });
    }
  }

  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    @autoreleasepool {
      MCCL_CHECK_EQ(ticket, kTicket);
      return await_metal_event(state_->event, kFilled, listener_, std::move(wake));
    }
  }

  void raise_consumer(uint64_t ticket) override {
    @autoreleasepool {
      MCCL_CHECK_EQ(ticket, kTicket);
      MCCL_CHECK(!is_raised_.exchange(true));  // once
      // A call that failed before it had its input has nothing to copy back. Its event is signalled
      // behind the copy in, lest it be raised to 3 and then signalled 1 and 2.
      if (state_->event.signaledValue < kFilled) return commit_signal(queues_.in, *state_);
      std::atomic_thread_fence(std::memory_order_release);
      commit_copies(queues_.out, state_, Direction::Out);
    }
  }

 private:
  static constexpr uint64_t kTicket = 1;

  const std::shared_ptr<MetalStream> stream_;  // shared: others encode on it too
  const Queues queues_;
  MTLSharedEventListener* const listener_;
  const std::shared_ptr<StagedState> state_;  // shared with the copies under way
  bool is_signalled_ = false;
  std::atomic<bool> is_raised_ = false;
};

class Staging final : public MetalStaging {
 public:
  Staging(id<MTLDevice> device, Queues queues, MTLSharedEventListener* listener)
      : device_(device), queues_(queues), listener_(listener) {}

  Result<StagedMemory> stage(std::shared_ptr<MetalStream> stream,
                             std::vector<StagedRegion> regions) override {
    @autoreleasepool {
      auto state = std::make_shared<StagedState>();
      size_t total_bytes = 0;
      for (const StagedRegion& region : regions) {
        if (region.offset_bytes > region.buffer.length ||
            region.bytes > region.buffer.length - region.offset_bytes)
          return Status(StatusCode::InvalidArgument,
                        "a tensor ends at byte " +
                            std::to_string(region.offset_bytes + region.bytes) +
                            " of a Metal buffer of " + std::to_string(region.buffer.length));
        state->offsets.push_back(total_bytes);
        total_bytes += (region.bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
      }
      total_bytes = std::max(total_bytes, kAlignmentBytes);
      state->regions = std::move(regions);
      state->event = [device_ newSharedEvent];
      state->copies = [device_ newBufferWithLength:total_bytes
                                           options:MTLResourceStorageModeShared];
      if (state->event == nil || state->copies == nil)
        return Status(StatusCode::Internal, "Metal has no " + std::to_string(total_bytes) +
                                                " bytes for copies of tensors in private storage");
      StagedMemory memory;
      for (const size_t offset : state->offsets)
        memory.addresses.push_back(static_cast<std::byte*>([state->copies contents]) + offset);
      memory.await_returned = [event = state->event,
                               listener = listener_](std::function<void()> wake) {
        @autoreleasepool {
          return await_metal_event(event, kReturned, listener, std::move(wake));
        }
      };
      memory.hand_off =
          std::make_shared<StagedHandOff>(std::move(stream), queues_, listener_, std::move(state));
      return memory;
    }
  }

 private:
  const id<MTLDevice> device_;
  const Queues queues_;
  MTLSharedEventListener* const listener_;
};

}  // namespace

Result<std::shared_ptr<MetalStaging>> make_metal_staging(id<MTLDevice> device) {
  @autoreleasepool {
    const Queues queues = {[device newCommandQueue], [device newCommandQueue]};
    MTLSharedEventListener* listener = make_metal_listener();
    if (queues.in == nil || queues.out == nil || listener == nil)
      return Status(StatusCode::Unsupported,
                    "this Metal device makes no command queues for copies of private storage; "
                    "use CPU tensors");
    return std::shared_ptr<MetalStaging>(std::make_shared<Staging>(device, queues, listener));
  }
}

}  // namespace mccl
