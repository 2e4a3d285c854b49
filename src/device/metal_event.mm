// Metal orders the two sides by the event's value; the fences keep the CPU's own accesses to the
// memory from moving past it, since the compiler and the core know of no link between the two.
#import "device/metal_event.h"

#include <atomic>
#include <memory>
#include <utility>

namespace mccl {
namespace {

bool has_reached(id<MTLSharedEvent> event, uint64_t value) {
  const bool is_reached = event.signaledValue >= value;
  std::atomic_thread_fence(std::memory_order_acquire);
  return is_reached;
}

// A wake-up that is used by the event's block or given up by await_metal_event(), never both.
struct Waiter {
  std::function<void()> wake;
  std::atomic<bool> is_used = false;

  bool use() { return !is_used.exchange(true); }
};

}  // namespace

MTLSharedEventListener* make_metal_listener() {
  return [[MTLSharedEventListener alloc]
      initWithDispatchQueue:dispatch_queue_create("mccl.metal", DISPATCH_QUEUE_SERIAL)];
}

bool await_metal_event(id<MTLSharedEvent> event, uint64_t value, MTLSharedEventListener* listener,
                       std::function<void()> wake) {
  if (has_reached(event, value)) return true;
  const auto waiter = std::make_shared<Waiter>();  // shared with the block, which may stay behind
  waiter->wake = std::move(wake);
  [event notifyListener:listener
                atValue:value
                  block:^(id<MTLSharedEvent>, uint64_t) {
                    std::atomic_thread_fence(std::memory_order_acquire);
                    if (waiter->use()) waiter->wake();
                  }];
  // The value may have come between the look and the request. Metal does not promise that the block
  // is called then, so look again; only one of the two may tell the caller.
  return has_reached(event, value) && waiter->use();
}

void raise_metal_event(id<MTLSharedEvent> event, uint64_t value) {
  std::atomic_thread_fence(std::memory_order_release);
  event.signaledValue = value;
}

}  // namespace mccl
