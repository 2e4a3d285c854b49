#import "metal/fake_torch.h"

#include <ATen/mps/MPSAllocatorInterface.h>

#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace mccl::fake_metal {
namespace {

struct Torch {
  std::mutex mutex;
  std::map<const at::mps::MPSStream*, Stream*> streams;
  std::atomic<at::mps::MPSStream*> current = nullptr;
  std::atomic<const char*> failure = nullptr;
  Stream* constructed = nullptr;  // under make_torch_stream()
  std::function<const void*(const void*)> find_bytes = [](const void*) { return nullptr; };
};

Torch& torch() {
  static Torch state;
  return state;
}

Stream& stream_of(const at::mps::MPSStream* stream) {
  const std::lock_guard lock(torch().mutex);
  return *torch().streams.at(stream);
}

// Answers one question, and refuses the others.
class Allocator final : public at::mps::IMPSAllocator {
 public:
  std::pair<const void*, uint32_t> getSharedBufferPtr(const void* buffer) const override {
    const void* bytes = torch().find_bytes(buffer);
    return {bytes, bytes == nullptr ? 0 : 1};
  }

  void freeInactiveBuffers() const override { refuse(); }
  ssize_t getUnalignedBufferSize(const void*) const override { return refuse<ssize_t>(); }
  at::IntArrayRef getBufferShape(const void*) const override { return refuse<at::IntArrayRef>(); }
  id_t getBufferId(const void*) const override { return refuse<id_t>(); }
  void setBufferShape(const void*, const at::IntArrayRef&) const override { refuse(); }
  bool isSharedBuffer(const void*) const override { return refuse<bool>(); }
  c10::DataPtr allocScalarBufferWithValue(void*, size_t) const override {
    return refuse<c10::DataPtr>();
  }
  std::string formatSize(size_t) const override { return refuse<std::string>(); }
  void setLowWatermarkRatio(double) const override { refuse(); }
  void setHighWatermarkRatio(double) const override { refuse(); }
  ssize_t getLowWatermarkValue() const override { return refuse<ssize_t>(); }
  size_t getLowWatermarkLimit() const override { return refuse<size_t>(); }
  size_t getHighWatermarkLimit() const override { return refuse<size_t>(); }
  size_t getTotalAllocatedMemory() const override { return refuse<size_t>(); }
  size_t getCurrentAllocatedMemory() const override { return refuse<size_t>(); }
  size_t getDriverAllocatedMemory() const override { return refuse<size_t>(); }
  size_t getRecommendedMaxMemory() const override { return refuse<size_t>(); }
  c10::Storage getHostAliasStorage(const c10::Storage&) const override {
    return refuse<c10::Storage>();
  }
  bool recordEvents(c10::ArrayRef<const void*>) const override { return refuse<bool>(); }
  bool waitForEvents(c10::ArrayRef<const void*>) const override { return refuse<bool>(); }

  c10::DataPtr allocate(size_t) override { return refuse<c10::DataPtr>(); }
  void copy_data(void*, const void*, size_t) const override { refuse(); }
  bool initialized() override { return refuse<bool>(); }
  void emptyCache(c10::MempoolId_t) override { refuse(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override { refuse(); }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    return refuse<c10::CachingDeviceAllocator::DeviceStats>();
  }
  void resetAccumulatedStats(c10::DeviceIndex) override { refuse(); }
  void resetPeakStats(c10::DeviceIndex) override { refuse(); }

 private:
  template <typename T = void>
  static T refuse() {
    fail_check(__FILE__, __LINE__, "only getSharedBufferPtr() is asked", "");
  }
};

}  // namespace

at::mps::MPSStream* make_torch_stream(Stream& stream) {
  torch().constructed = &stream;
  auto* made = new at::mps::MPSStream(
      c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::MPS, 0), 0));
  const std::lock_guard lock(torch().mutex);
  torch().streams[made] = &stream;
  return made;
}

void set_current_stream(at::mps::MPSStream* stream) {
  torch().current = stream;
}

void fail_next_encoding(const char* words) {
  torch().failure = words;
}

void set_shared_buffers(std::function<const void*(const void*)> find_bytes) {
  torch().find_bytes = std::move(find_bytes);
}

at::Tensor make_torch_tensor(void* buffer, size_t storage_bytes, const TensorLayout& layout) {
  const c10::Device device(c10::DeviceType::MPS, 0);
  c10::Storage storage(c10::Storage::use_byte_size_t(), storage_bytes, c10::DataPtr(buffer, device),
                       nullptr, false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::MPS),
      caffe2::TypeMeta::Make<int64_t>());
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes, layout.strides,
                                                      layout.storage_offset);
  return tensor;
}

}  // namespace mccl::fake_metal

namespace at::mps {

using mccl::fake_metal::stream_of;
using mccl::fake_metal::torch;

MPSStream::MPSStream(Stream stream) : _stream(stream) {
  _serialQueue = torch().constructed->queue();
}

MPSStream::~MPSStream() = default;

MPSCommandBuffer_t MPSStream::commandBuffer() {
  const char* failure = torch().failure.exchange(nullptr);
  TORCH_CHECK(failure == nullptr, failure);
  return stream_of(this).command_buffer();
}

void MPSStream::endKernelCoalescing() {
  stream_of(this).end_kernel_coalescing();
}

void MPSStream::synchronize(SyncType type) {
  TORCH_CHECK(type == SyncType::COMMIT, "nobody but the user waits for the device");
  stream_of(this).commit();
}

MTLDevice_t MPSStream::device() const {
  return stream_of(this).device();
}

MPSStream* getCurrentMPSStream() {
  return torch().current;
}

IMPSAllocator* getIMPSAllocator() {
  static mccl::fake_metal::Allocator allocator;
  return &allocator;
}

}  // namespace at::mps
