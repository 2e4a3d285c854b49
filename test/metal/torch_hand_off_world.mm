// The plug-in's mps device over the stand-ins: the same suite as the others, through
// metal_device.mm and torch's tensors.
#include <utility>

#import "metal/fake_metal.h"
#import "metal/fake_torch.h"
#import "metal/torch_world.h"

#include "conformance/hand_off_world.h"

namespace mccl {
namespace {

// A tensor of one element per cell.
class TorchHandOffWorld : public HandOffWorld {
 public:
  explicit TorchHandOffWorld(MTLResourceOptions storage)
      : cells_(world_.make_buffer(kCellCount * sizeof(int64_t), storage)) {}

  int64_t* device_cell(size_t index) override {
    return reinterpret_cast<int64_t*>(fake_metal::device_bytes(cells_)) + index;
  }
  void encode(std::function<void()> kernel) override {
    world_.stream().encode_kernel(std::move(kernel));
  }
  void commit() override { world_.stream().commit_kernels(); }
  void run() override { world_.gpu().run(); }
  std::vector<std::string> violations() override { return world_.gpu().violations().list(); }

 protected:
  at::Tensor tensor_of(size_t cell) {
    return fake_metal::make_torch_tensor(
        cells_, kCellCount * sizeof(int64_t),
        {.sizes = {1}, .strides = {1}, .storage_offset = static_cast<int64_t>(cell)});
  }

  fake_metal::TorchWorld world_;
  id<MTLBuffer> cells_;
};

class SharedWorld final : public TorchHandOffWorld {
 public:
  SharedWorld() : TorchHandOffWorld(MTLResourceStorageModeShared) {}
  Call begin_call(size_t cell) override {
    return {world_.device().current_stream(),
            static_cast<int64_t*>(world_.device().host_address(tensor_of(cell)))};
  }
};

class PrivateWorld final : public TorchHandOffWorld {
 public:
  PrivateWorld() : TorchHandOffWorld(MTLResourceStorageModePrivate) {}
  Call begin_call(size_t cell) override {
    const std::vector<StagedTensor> tensors = {{.tensor = tensor_of(cell)}};
    Result<StagedCall> call = world_.device().make_staged_call(tensors);
    return {call.value().hand_off, static_cast<int64_t*>(call.value().addresses[0])};
  }
};

INSTANTIATE_TEST_SUITE_P(
    Torch, HandOffTest,
    ::testing::Values(HandOffKind{"torch_shared", [] { return std::make_unique<SharedWorld>(); }},
                      HandOffKind{"torch_private",
                                  [] { return std::make_unique<PrivateWorld>(); }}));

}  // namespace
}  // namespace mccl
