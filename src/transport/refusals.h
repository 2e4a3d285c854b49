// Connections that were turned away: counted by reason, and told once per address.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <string>

#include "transport/handshake.h"

namespace mccl {

class Refusals {
 public:
  // Takes one line of text for the log.
  using Notice = std::function<void(const std::string& line)>;

  explicit Refusals(Notice notice) : notice_(std::move(notice)) {}

  // `host` is the address of the other side, `reason` says why in words. Nothing is told of a
  // connection that closes without a word, as a port scan does, or of a duplicate, which is what
  // remains when two processes connect to each other at once.
  void note(Refusal refusal, bool has_bytes, const std::string& host, const std::string& reason);

  uint64_t count(Refusal refusal) const { return counts_[static_cast<size_t>(refusal)]; }
  // All but duplicates.
  uint64_t stranger_count() const;

 private:
  Notice notice_;
  std::array<uint64_t, kRefusalCount> counts_{};
  std::set<std::string> hosts_;  // told of; at most kHostsMax
  bool has_told_of_more_ = false;
};

}  // namespace mccl
