// Waiting for the value of a Metal shared event without a thread that stands still. For
// Objective-C++ files.
#pragma once

#import <Metal/Metal.h>

#include <cstdint>
#include <functional>

namespace mccl {

// Calls the blocks of events on a queue of its own: they do not wait behind a program's work. Nil
// where the system has none.
MTLSharedEventListener* make_metal_listener();

// Whether the event has reached the value; then the CPU sees what came before it. If not, `wake` is
// called once when it has, on a thread of the listener's. Any thread, does not block. The event and
// the listener may go before that; `wake` then may be dropped.
bool await_metal_event(id<MTLSharedEvent> event, uint64_t value, MTLSharedEventListener* listener,
                       std::function<void()> wake);

// Raises the event to the value; whoever sees it sees what the CPU wrote before.
void raise_metal_event(id<MTLSharedEvent> event, uint64_t value);

}  // namespace mccl
