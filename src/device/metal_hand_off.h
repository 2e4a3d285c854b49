// The hand-off (law L13) between a framework's Metal stream and the engine, over shared events. For
// Objective-C++ files; what a Mac has run of it, and what not, is in docs/metal-notes.md.
#pragma once

#import <Metal/Metal.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "mccl/device.h"

namespace mccl {

enum class AfterEncoding : uint8_t { KeepOpen, Commit };

// All that is asked of the framework's stream: an open command buffer, and its commit. Implementers
// take care of encoders that the framework left open, and of other threads of the framework.
class MetalStream {
 public:
  virtual ~MetalStream() = default;

  // Calls `encode` once, before it returns, with the open command buffer: no encoder is open on it,
  // and nobody else encodes on the stream meanwhile. Then commits, if asked. Does not wait for the
  // GPU. The caller's thread, which is not inside another call of the stream. After an error it is
  // not known what was encoded.
  virtual Status encode(AfterEncoding after,
                        const std::function<void(id<MTLCommandBuffer>)>& encode) = 0;
};

// `stream` is a stream of `device`. An error where the device makes no shared events.
Result<std::shared_ptr<HandOff>> make_metal_hand_off(id<MTLDevice> device,
                                                     std::shared_ptr<MetalStream> stream);

}  // namespace mccl
