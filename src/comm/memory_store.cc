// A store for ranks that are threads of one process: a map, a lock and a condition. And what every
// store does unless it knows better.
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "mccl/store.h"

namespace mccl {
namespace {

class MemoryStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
    return Status::ok();
  }

  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    std::unique_lock lock(mutex_);
    const auto is_there = [&] { return values_.contains(key); };
    if (timeout_ns > 0) changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), is_there);
    if (!is_there()) return std::optional<std::string>();
    return std::optional<std::string>(values_[key]);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::shared_ptr<Store> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

}  // namespace mccl
