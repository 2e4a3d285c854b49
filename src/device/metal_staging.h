// The hand-off for memory out of the CPU's reach (private storage): a call gets copies that the CPU
// reaches, filled behind the kernels that write the originals and copied back before those that
// read them. For Objective-C++ files.
#pragma once

#import <Metal/Metal.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "device/metal_hand_off.h"
#include "mccl/device.h"

namespace mccl {

// A piece of a buffer, and what the engine does with it.
struct StagedRegion {
  id<MTLBuffer> buffer = nil;
  size_t offset_bytes = 0;
  size_t bytes = 0;
  bool is_read = true;     // copied in
  bool is_written = true;  // copied back, every byte: what is not read is written as a whole
  // Kept until the copies are done, and dropped on a thread of Metal's: a framework that uses the
  // memory for something else when its tensor goes does not know of the copies.
  std::shared_ptr<const void> owner;
};

struct StagedMemory {
  std::vector<void*> addresses;       // of the copies, one per region; as long as hand_off is held
  std::shared_ptr<HandOff> hand_off;  // for one ticket, in place of the stream's own
  // After raise_consumer(): whether the originals are written. If not, `wake` is called once when
  // they are, on a thread of Metal's. Any thread.
  std::function<bool(std::function<void()> wake)> await_returned;
};

// Per device. The copies run on two command queues of its own, so they neither drain nor disturb
// the framework's stream, and a copy back never waits behind another call's copy in.
class MetalStaging {
 public:
  virtual ~MetalStaging() = default;

  // The caller's thread; does not wait. `stream` is the one on which the originals are used. The
  // buffers are held until the copies are done.
  virtual Result<StagedMemory> stage(std::shared_ptr<MetalStream> stream,
                                     std::vector<StagedRegion> regions) = 0;
};

Result<std::shared_ptr<MetalStaging>> make_metal_staging(id<MTLDevice> device);

}  // namespace mccl
