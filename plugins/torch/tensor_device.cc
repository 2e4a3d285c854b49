#include "tensor_device.h"

#include <map>
#include <mutex>
#include <utility>

namespace mccl {
namespace {

// Process-wide, as torch's own list of devices is.
struct Registry {
  std::mutex mutex;
  std::map<c10::DeviceType, std::shared_ptr<TensorDevice>> devices;
};

Registry& registry() {
  static auto* const one = new Registry;  // outlives whatever is destroyed at exit
  return *one;
}

}  // namespace

void register_tensor_device(c10::DeviceType type, std::shared_ptr<TensorDevice> device) {
  const std::lock_guard lock(registry().mutex);
  registry().devices[type] = std::move(device);
}

std::shared_ptr<TensorDevice> find_tensor_device(c10::DeviceType type) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().devices.find(type);
  return found == registry().devices.end() ? nullptr : found->second;
}

}  // namespace mccl
