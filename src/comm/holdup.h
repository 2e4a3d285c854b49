// Who is waited for, and why, as ranks tell each other (law L9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mccl {

// A rank that others wait for. Put into words where it happens, because only there the words are
// known.
struct Holdup {
  uint64_t process = 0;
  uint64_t waits_for = 0;  // the process that it waits for itself, elsewhere; 0: for none
  std::string text;        // "rank 2 (host h7, pid 4711) has not made operation 12; ..."
  bool operator==(const Holdup&) const = default;
};

// At most kHoldupsMax of them, of at most kHoldupTextMax bytes each; what is more is left out.
constexpr size_t kHoldupsMax = 12;
constexpr size_t kHoldupTextMax = 512;
std::vector<std::byte> write_report(std::span<const Holdup> holdups);
// Nothing when the bytes are no report.
std::optional<std::vector<Holdup>> parse_report(std::span<const std::byte> report);

// The holdups from `process` round to itself, each waiting for the next; empty when there is no
// such circle. `first`: the processes that `process` waits for.
std::vector<Holdup> find_circle(uint64_t process, std::span<const uint64_t> first,
                                std::span<const Holdup> holdups);

}  // namespace mccl
