// Our Store over torch's.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "mccl/store.h"

namespace mccl {

// Asks with check() before it gets: torch's get() would hold the client's lock while it waits, and
// block every other thread that shares the client.
class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  Status set(const std::string& key, const std::string& value) override;
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace mccl
