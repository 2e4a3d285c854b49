#include "torch_store.h"

#include <c10/util/Exception.h>
#include <poll.h>

#include <algorithm>
#include <exception>

namespace mccl {
namespace {

// Between two looks at a key; a look is one round trip to the store.
constexpr int kPauseMsMax = 50;

// Of torch's own exceptions without the C++ stack that they carry.
Status store_error(const std::exception& error) {
  const auto* of_torch = dynamic_cast<const c10::Error*>(&error);
  return Status(StatusCode::Network,
                std::string("the rendezvous store failed: ") +
                    (of_torch != nullptr ? of_torch->what_without_backtrace() : error.what()));
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
    // store_->wait() prints a warning for every limit that passes; a late rank is no warning.
    int pause_ms = 1;
    int64_t left_ms = timeout_ns / 1'000'000;
    while (!store_->check({key})) {
      if (left_ms <= 0) return std::optional<std::string>();
      pause_ms = static_cast<int>(std::min<int64_t>(std::min(2 * pause_ms, kPauseMsMax), left_ms));
      ::poll(nullptr, 0, pause_ms);
      left_ms -= pause_ms;
    }
    const std::vector<uint8_t> value = store_->get(key);
    return std::optional<std::string>(std::string(value.begin(), value.end()));
  } catch (const std::exception& error) {
    return store_error(error);
  }
}

}  // namespace mccl
