// A key-value store for the nodes of one world: what a rendezvous server is to real processes. It
// answers at once and costs no virtual time; nobody waits in it, a reader asks again in a later
// step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace mccl::sim {

// One thread, like the world. Shared by the nodes; owned by the test.
class MemoryStore {
 public:
  void set(const std::string& key, std::string value) { values_[key] = std::move(value); }

  // Empty while nobody has set the key.
  std::optional<std::string> find(const std::string& key) const {
    const auto found = values_.find(key);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

  // Adds to the key's counter, which starts at 0, and returns its new value. Counters and values do
  // not share names.
  int64_t add(const std::string& key, int64_t amount) { return counters_[key] += amount; }

 private:
  std::map<std::string, std::string> values_;
  std::map<std::string, int64_t> counters_;
};

}  // namespace mccl::sim
