// The store of a world: what a rendezvous server is to real processes. It costs no virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "mccl/store.h"

namespace mccl::sim {

// One thread, like the world; owned by the test, shared by the nodes. get() looks once whatever its
// timeout: waiting would stop the world's only thread, so a node asks again in a later step.
class SimStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    values_[key] = value;
    return Status::ok();
  }

  Result<std::optional<std::string>> get(const std::string& key, int64_t /*timeout_ns*/) override {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::optional<std::string>();
    return std::optional<std::string>(found->second);
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace mccl::sim
