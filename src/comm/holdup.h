// Who is waited for, and why, as ranks tell each other (law L9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"

namespace mccl {

// How far a process is in a communicator. Put into words by that process, because only there the
// words are known, and handed on from rank to rank. Of two sayings the one with the larger version
// counts, so that news travel once and come to rest.
struct Holdup {
  uint64_t process = 0;
  uint64_t communicator = 0;
  uint64_t version = 0;       // counted by the process; it changes with what follows but the words
  uint64_t posted_count = 0;  // calls made
  uint64_t waits_for = 0;     // the process that it waits for, elsewhere; 0: for none
  bool is_busy = false;       // it is in its oldest call and waits for something of its own
  bool is_silent = false;     // said by another process: it does not answer
  TimeNs said_at = 0;         // by the clock of this rank; reports carry ages
  std::string name = {};      // "rank 2 (host h7, pid 4711)"
  std::string text = {};      // "its last call was 11 (barrier()), 2.6 s ago, complete"

  // Whether it keeps others from completing operation `number`.
  bool holds(uint64_t number) const { return posted_count <= number || is_busy || is_silent; }
  bool is_later_than(const Holdup& other) const {
    return version != other.version ? version > other.version : is_silent && !other.is_silent;
  }
};

// At most kHoldupsMax of them, of at most kHoldupTextMax bytes of words each; what is more is left
// out.
constexpr size_t kHoldupsMax = 12;
constexpr size_t kHoldupTextMax = 480;
std::vector<std::byte> write_report(std::span<const Holdup> holdups, TimeNs now);
// Nothing when the bytes are no report.
std::optional<std::vector<Holdup>> parse_report(std::span<const std::byte> report, TimeNs now);

// The holdups from `process` round to itself, each waiting for the next; empty when there is no
// such circle. `first`: the processes that `process` waits for.
std::vector<Holdup> find_circle(uint64_t process, std::span<const uint64_t> first,
                                std::span<const Holdup> holdups);

}  // namespace mccl
