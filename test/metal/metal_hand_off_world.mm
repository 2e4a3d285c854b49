// The Metal hand-off over the stand-ins of this folder, in unified memory and with copies of
// private storage.
#include <utility>

#import "device/metal_hand_off.h"
#import "device/metal_staging.h"
#import "metal/fake_metal.h"

#include "base/check.h"
#include "conformance/hand_off_world.h"

namespace mccl {
namespace {

// What metal_device.mm does with torch's stream.
class PlainStream final : public MetalStream {
 public:
  explicit PlainStream(fake_metal::Stream& stream) : stream_(stream) {}

  Status encode(AfterEncoding after,
                const std::function<void(id<MTLCommandBuffer>)>& encode) override {
    dispatch_sync(stream_.queue(), ^{
      stream_.end_kernel_coalescing();
      encode(stream_.command_buffer());
      if (after == AfterEncoding::Commit) stream_.commit();
    });
    return Status::ok();
  }

 private:
  fake_metal::Stream& stream_;
};

// What both worlds share: a GPU, a stream on a queue of it, a buffer of cells.
class MetalWorld : public HandOffWorld {
 public:
  explicit MetalWorld(MTLResourceOptions storage) {
    cells_ = [device_ newBufferWithLength:kCellCount * sizeof(int64_t) options:storage];
  }

  int64_t* device_cell(size_t index) override {
    return reinterpret_cast<int64_t*>(fake_metal::device_bytes(cells_)) + index;
  }
  void encode(std::function<void()> kernel) override { stream_.encode_kernel(std::move(kernel)); }
  void commit() override { stream_.commit_kernels(); }
  void run() override { gpu_.run(); }
  std::vector<std::string> violations() override { return gpu_.violations().list(); }

 protected:
  fake_metal::Gpu gpu_;
  const id<MTLDevice> device_ = fake_metal::make_device(gpu_);
  const size_t queue_index_ = gpu_.add_queue();
  fake_metal::Stream stream_{[this] { return gpu_.make_sink(queue_index_); }, device_,
                             gpu_.violations()};
  const std::shared_ptr<MetalStream> metal_stream_ = std::make_shared<PlainStream>(stream_);
  id<MTLBuffer> cells_ = nil;
};

class UnifiedWorld final : public MetalWorld {
 public:
  UnifiedWorld() : MetalWorld(MTLResourceStorageModeShared) {
    hand_off_ = make_metal_hand_off(device_, metal_stream_).value();
  }
  Call begin_call(size_t cell) override { return {hand_off_, device_cell(cell)}; }

 private:
  std::shared_ptr<HandOff> hand_off_;
};

class StagedWorld final : public MetalWorld {
 public:
  StagedWorld() : MetalWorld(MTLResourceStorageModePrivate) {
    staging_ = make_metal_staging(device_).value();
  }
  Call begin_call(size_t cell) override {
    Result<StagedMemory> memory = staging_->stage(
        metal_stream_,
        {{.buffer = cells_, .offset_bytes = cell * sizeof(int64_t), .bytes = sizeof(int64_t)}});
    MCCL_CHECK(memory.is_ok());
    return {memory.value().hand_off, static_cast<int64_t*>(memory.value().addresses[0])};
  }

 private:
  std::shared_ptr<MetalStaging> staging_;
};

INSTANTIATE_TEST_SUITE_P(
    Metal, HandOffTest,
    ::testing::Values(HandOffKind{"metal", [] { return std::make_unique<UnifiedWorld>(); }},
                      HandOffKind{"metal_staged", [] { return std::make_unique<StagedWorld>(); }}));

}  // namespace
}  // namespace mccl
