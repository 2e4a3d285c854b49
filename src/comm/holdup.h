// Who is waited for, and why, as ranks tell each other (law L9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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
  // The processes that it waits for: in this communicator, or in the one that keeps it from calling
  // here, and in which operation.
  std::vector<uint64_t> waits_for = {};
  uint64_t waits_in = 0;
  uint64_t waits_number = 0;
  bool is_busy = false;    // in call `waits_number` it waits for something of its own
  bool is_silent = false;  // said by another process: it does not answer
  TimeNs said_at = 0;      // by the clock of this rank; reports carry ages
  std::string name = {};   // "rank 2 (host h7, pid 4711)"
  std::string text = {};   // "its last call was 11 (barrier()), 2.6 s ago, complete"

  // Whether it keeps others from completing operation `number`.
  bool holds(uint64_t number) const {
    return posted_count <= number || (is_busy && waits_number <= number) || is_silent;
  }
  // It has come and waits for others: it holds nobody up, but a circle may lead through it.
  bool is_link() const { return !waits_for.empty() && waits_in == communicator; }
  bool is_later_than(const Holdup& other) const {
    return version != other.version ? version > other.version : is_silent && !other.is_silent;
  }
};

// At most kHoldupsMax of them, each with at most kHoldupTextMax bytes of words and kWaitsForMax
// processes that it waits for; what is more is left out.
constexpr size_t kHoldupsMax = 12;
constexpr size_t kHoldupTextMax = 480;
constexpr size_t kWaitsForMax = 16;
std::vector<std::byte> write_report(std::span<const Holdup> holdups, TimeNs now);
// Nothing when the bytes are no report.
std::optional<std::vector<Holdup>> parse_report(std::span<const std::byte> report, TimeNs now);

// What a process waits for in an operation of a communicator.
struct AwaitedPeers {
  uint64_t process = 0;
  uint64_t communicator = 0;
  uint64_t number = 0;
  std::span<const uint64_t> peers;
};

// The holdups from a process round to itself, each waiting for the next, as few as there can be;
// empty when there is no such circle. Ranks of one operation that wait for each other's data are
// none: on the way somebody has to be missing where the one before waits for it. Nor are messages:
// a receive may be posted long before anybody waits for it. `is_absent` says
// whether the process itself has not made an operation of a communicator.
std::vector<Holdup> find_circle(const AwaitedPeers& start, std::span<const Holdup> holdups,
                                const std::function<bool(uint64_t, uint64_t)>& is_absent);

}  // namespace mccl
