#include "torch_store.h"

#include <algorithm>
#include <chrono>
#include <exception>

namespace mccl {
namespace {

Status store_error(const std::exception& error) {
  return Status(StatusCode::Network, std::string("the rendezvous store failed: ") + error.what());
}

}  // namespace

Status TorchStore::set(const std::string& key, const std::string& value) {
  try {
    store_->set(key, std::vector<uint8_t>(value.begin(), value.end()));
    return Status::ok();
  } catch (const std::exception& error) {
    return store_error(error);
  }
}

Result<std::optional<std::string>> TorchStore::get(const std::string& key, int64_t timeout_ns) {
  try {
    if (!store_->check({key})) {
      if (timeout_ns == 0) return std::optional<std::string>();
      // Rounded up: a wait of 0 ms would wait for ever.
      const std::chrono::milliseconds limit(std::max<int64_t>(1, timeout_ns / 1'000'000));
      try {
        store_->wait({key}, limit);
      } catch (const std::exception&) {
        // Too late or failed: the next look tells which.
        if (!store_->check({key})) return std::optional<std::string>();
      }
    }
    const std::vector<uint8_t> value = store_->get(key);
    return std::optional<std::string>(std::string(value.begin(), value.end()));
  } catch (const std::exception& error) {
    return store_error(error);
  }
}

}  // namespace mccl
