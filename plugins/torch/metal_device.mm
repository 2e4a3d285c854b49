// How torch's mps tensors and streams look to the engine. What differs between versions of torch is
// asked of the headers themselves, by requirements on their classes:
//
//   before 2.12   one stream; large tensors may lie in private storage, small ones in shared
//   2.12 to 2.14  one stream; all tensors in shared storage
//   2.15          a current stream per thread, allocators that must know of a second stream
//
// Two rules of torch's MPSStream hold for all: it is used inside its own serial queue, and whoever
// encodes on its command buffer first ends the kernel encoder that torch leaves open.
//
// test/metal type-checks this file against torch's headers and stubs of the three, and runs it over
// stand-ins for torch's stream and Metal's objects.
#include "metal_device.h"

#include <ATen/mps/MPSAllocatorInterface.h>
#include <ATen/mps/MPSStream.h>

#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#import "device/metal_hand_off.h"
#import "device/metal_staging.h"

namespace mccl {
namespace {

// By argument-dependent look-up: in namespace at::mps where it exists.
template <typename Stream>
concept HasPublicStreams = requires(Stream* stream) {
  setCurrentMPSStream(stream);
};

// torch's stream, one call at a time on its queue. torch throws; nothing may be thrown out of a
// block that the queue runs.
class TorchStream final : public MetalStream {
 public:
  explicit TorchStream(at::mps::MPSStream* stream) : stream_(stream) {}

  Status encode(AfterEncoding after,
                const std::function<void(id<MTLCommandBuffer>)>& encode) override {
    at::mps::MPSStream* stream = stream_;
    const auto* body = &encode;
    std::exception_ptr thrown;
    std::exception_ptr* const caught = &thrown;
    dispatch_sync(stream->queue(), ^{
      @autoreleasepool {
        try {
          stream->endKernelCoalescing();
          (*body)(stream->commandBuffer());
          if (after == AfterEncoding::Commit) stream->synchronize(at::mps::SyncType::COMMIT);
        } catch (...) {
          *caught = std::current_exception();
        }
      }
    });
    if (thrown == nullptr) return Status::ok();
    try {
      std::rethrow_exception(thrown);
    } catch (const c10::Error& error) {
      return Status(StatusCode::Internal,
                    "torch's mps stream failed: " + std::string(error.what_without_backtrace()));
    } catch (const std::exception& error) {
      return Status(StatusCode::Internal,
                    "torch's mps stream failed: " + std::string(error.what()));
    }
  }

 private:
  at::mps::MPSStream* const stream_;  // torch's streams live as long as the process
};

// The bytes from the first element to the last, whatever the strides.
size_t extent_bytes(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  int64_t last_index = 0;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    last_index += (tensor.size(dim) - 1) * tensor.stride(dim);
  return (static_cast<size_t>(last_index) + 1) * tensor.itemsize();
}

size_t offset_bytes(const at::Tensor& tensor) {
  return static_cast<size_t>(tensor.storage_offset()) * tensor.itemsize();
}

// Of a storage on mps, torch's data pointer is the buffer itself.
id<MTLBuffer> buffer_of(const at::Tensor& tensor) {
  return (__bridge id<MTLBuffer>)tensor.storage().data();
}

// Where the CPU finds the storage's first byte; null in private storage.
const std::byte* find_storage_bytes(const at::Tensor& tensor, size_t end_bytes) {
  const void* shared =
      at::mps::getIMPSAllocator()->getSharedBufferPtr(tensor.storage().data()).first;
  if (shared != nullptr) return static_cast<const std::byte*>(shared);
  // Not in a shared pool of torch's: memory of another allocator's, or private.
  id<MTLBuffer> buffer = buffer_of(tensor);
  if (buffer.storageMode != MTLStorageModeShared) return nullptr;
  TORCH_CHECK(end_bytes <= buffer.length, "mccl: a tensor on ", tensor.device(), " ends at byte ",
              end_bytes, " of a Metal buffer of ", buffer.length);
  return static_cast<const std::byte*>([buffer contents]);
}

class MetalTensorDevice final : public TensorDevice {
 public:
  void* host_address(const at::Tensor& tensor) override {
    @autoreleasepool {
      const size_t end_bytes = check_extent(tensor);
      const std::byte* storage = find_storage_bytes(tensor, end_bytes);
      if (storage == nullptr) return nullptr;
      return const_cast<std::byte*>(storage) + offset_bytes(tensor);
    }
  }

  std::shared_ptr<HandOff> current_stream() override {
    @autoreleasepool {
      return find_stream().hand_off;
    }
  }

  Result<StagedCall> make_staged_call(std::span<const StagedTensor> tensors) override {
    @autoreleasepool {
      const Stream& stream = find_stream();
      std::vector<StagedRegion> regions;
      for (const StagedTensor& staged : tensors) {
        check_extent(staged.tensor);
        regions.push_back({.buffer = buffer_of(staged.tensor),
                           .offset_bytes = offset_bytes(staged.tensor),
                           .bytes = extent_bytes(staged.tensor),
                           .is_read = staged.is_read,
                           .is_written = staged.is_written,
                           .owner = std::make_shared<at::Tensor>(staged.tensor)});
      }
      Result<std::shared_ptr<MetalStaging>> staging = find_staging();
      MCCL_RETURN_IF_ERROR(staging.status());
      Result<StagedMemory> memory = staging.value()->stage(stream.stream, std::move(regions));
      MCCL_RETURN_IF_ERROR(memory.status());
      return StagedCall{std::move(memory.value().addresses), std::move(memory.value().hand_off),
                        std::move(memory.value().await_returned)};
    }
  }

  void note_consumer(const at::Tensor& tensor) override {
    @autoreleasepool {
      note_stream(tensor, *at::mps::getCurrentMPSStream());
    }
  }

 private:
  struct Stream {
    std::shared_ptr<MetalStream> stream;
    std::shared_ptr<HandOff> hand_off;
  };

  // Where the tensor ends in its storage, which it must not leave.
  static size_t check_extent(const at::Tensor& tensor) {
    const size_t end_bytes = offset_bytes(tensor) + extent_bytes(tensor);
    TORCH_CHECK(end_bytes <= tensor.storage().nbytes(), "mccl: a tensor on ", tensor.device(),
                " ends at byte ", end_bytes, " of a storage of ", tensor.storage().nbytes());
    return end_bytes;
  }

  // Until 2.14 all kernels are on one stream, and its allocator orders reuse by that.
  template <typename TorchStreamClass>
  static void note_stream(const at::Tensor& tensor, const TorchStreamClass& stream) {
    if constexpr (HasPublicStreams<TorchStreamClass>) tensor.record_stream(stream.unwrap());
  }

  // Of the calling thread's current stream. Kept for good: torch has a few dozen streams.
  const Stream& find_stream() {
    at::mps::MPSStream* torch_stream = at::mps::getCurrentMPSStream();
    const std::lock_guard lock(mutex_);
    Stream& stream = streams_[torch_stream];
    if (stream.hand_off != nullptr) return stream;
    stream.stream = std::make_shared<TorchStream>(torch_stream);
    Result<std::shared_ptr<HandOff>> hand_off =
        make_metal_hand_off(torch_stream->device(), stream.stream);
    TORCH_CHECK(hand_off.is_ok(), "mccl: ", hand_off.status().message());
    stream.hand_off = std::move(hand_off.value());
    return stream;
  }

  Result<std::shared_ptr<MetalStaging>> find_staging() {
    const std::lock_guard lock(mutex_);
    if (staging_ == nullptr) {
      Result<std::shared_ptr<MetalStaging>> made =
          make_metal_staging(at::mps::getCurrentMPSStream()->device());
      MCCL_RETURN_IF_ERROR(made.status());
      staging_ = std::move(made.value());
    }
    return staging_;
  }

  std::mutex mutex_;  // guards both; map nodes stay where they are
  std::map<at::mps::MPSStream*, Stream> streams_;
  std::shared_ptr<MetalStaging> staging_;
};

}  // namespace

std::shared_ptr<TensorDevice> make_metal_device() {
  return std::make_shared<MetalTensorDevice>();
}

}  // namespace mccl
