// The fake device as if its tensors were in private storage, out of the CPU's reach (torch before
// 2.12): every call goes through copies, made by a queue of their own that is late.
#pragma once

#include <memory>
#include <span>

#include "fake_device.h"
#include "tensor_device.h"

namespace mccl::fake_mps {

class PrivateDevice final : public TensorDevice {
 public:
  explicit PrivateDevice(FakeDevice& device);
  ~PrivateDevice() override;

  void* host_address(const at::Tensor&) override { return nullptr; }
  std::shared_ptr<HandOff> current_stream() override { return device_.sim().hand_off(); }
  Result<StagedCall> make_staged_call(std::span<const StagedTensor> tensors) override;

 private:
  class CopyQueue;
  class StagedHandOff;

  FakeDevice& device_;
  std::shared_ptr<CopyQueue> queue_;
};

}  // namespace mccl::fake_mps
