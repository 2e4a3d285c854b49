// The fake device as the plug-in knows it, with the test's eyes on every hand-over: which memory a
// ticket is for, when each of the four calls was made, and a way to break the law that a tensor's
// memory is held until the engine has done with it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "fake_device.h"
#include "tensor_device.h"

namespace mccl::fake_mps {

// Whether the engine works on a temporary of the device instead of the caller's tensor, as a back
// end might for memory that is not unified. Results are copied back before the ticket is raised.
enum class Temporary : uint8_t {
  None,
  Released,  // at return, before the engine has used it
  Held,      // until the ticket is raised: correct
};

// One call of the seam.
struct HandOver {
  std::string call;
  uint64_t ticket = 0;
  TimeNs begin_ns = 0;
  TimeNs end_ns = 0;
};

class WatchedHandOff;

class WatchedDevice final : public TensorDevice {
 public:
  explicit WatchedDevice(FakeDevice& device);
  ~WatchedDevice() override;

  void* host_address(const at::Tensor& tensor) override;
  std::shared_ptr<HandOff> current_stream() override;

  void set_temporary(Temporary temporary) { temporary_ = temporary; }
  // Since the last time, in the order in which the calls ended.
  std::vector<HandOver> take_hand_overs();

 private:
  FakeDevice& device_;
  std::atomic<Temporary> temporary_ = Temporary::None;
  const std::shared_ptr<WatchedHandOff> hand_off_;
};

// What the hand-off found broken, beside the device's own judge.
std::vector<std::string> hand_off_violations();

// A tensor of the same memory that does not keep it alive: what a back end has that forgets to.
at::Tensor without_ownership(const at::Tensor& tensor);

}  // namespace mccl::fake_mps
