// What the doctors of several hosts say to each other: lines of printable ASCII, of bounded length.
// Nothing is proven and nothing is secret; whoever reads a message believes only what fits its own
// --hosts.
//
// The first of --hosts leads. Either it or another host connects; the other host says Control, the
// first answers Welcome, and by Turns every pair measures itself: `from` connects to `to`, says
// Measure, hears Ready, and goes on with bytes that are not lines (measurement.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "doctor/pair_result.h"

namespace mccl {

constexpr size_t kLineBytesMax = 8192;
constexpr size_t kHostListBytesMax = 4096;
constexpr size_t kHostsMax = 64;

enum class MessageKind : uint8_t {
  Control,   // host `from` is here, with `hosts` and what it says of itself
  First,     // the first host asks for Control
  Welcome,   // the first host will call
  Refuse,    // why not
  Turn,      // `from` measures the way to `to` now; all hosts hear it
  Result,    // of a Turn
  Bye,       // the end; `number` is the exit status
  Measure,   // the first line of a connection that measures
  Ready,     // and its answer
  Received,  // `number` bytes have arrived
};

struct DoctorMessage {
  MessageKind kind = MessageKind::Ready;
  size_t from = 0;
  size_t to = 0;
  int64_t number = 0;
  std::string hosts = {};  // --hosts as it was given
  PairResult result = {};
  std::string words = {};

  bool operator==(const DoctorMessage&) const = default;
};

// With its line feed. Bytes of `words` that are not printable ASCII become '?'; what is longer than
// a line may be is cut.
std::string write_message(const DoctorMessage& message);

// Of a line without its line feed. Nothing for what no doctor of this version writes.
std::optional<DoctorMessage> parse_message(std::string_view line);

}  // namespace mccl
