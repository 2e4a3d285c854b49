// Questions that tests ask of the stand-ins for blocks and queues. For Objective-C++ files.
#pragma once

#include <dispatch/dispatch.h>

#include <cstddef>

namespace mccl::fake_metal {

// Blocks that were copied and not released yet.
size_t heap_block_count();

// Whether the calling thread is inside dispatch_sync() on the queue.
bool is_on_queue(dispatch_queue_t queue);

}  // namespace mccl::fake_metal
