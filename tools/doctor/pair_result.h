// What one host found when it connected to another one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mccl {

enum class Outcome : uint8_t {
  NotMeasured,
  Ok,
  Refused,      // the port answered that nobody listens
  Dropped,      // no answer at all
  Unreachable,  // a host or router said that there is no way
  Denied,       // this host's own rules forbid it
  Stalled,      // short messages arrive, packets of full length do not
  Broken,       // connected, then no sense in what came, or an end
  Failed,       // anything else
};

// "not measured", "ok", "refused", ...: one word, but for the first.
std::string_view outcome_name(Outcome outcome);
std::optional<Outcome> find_outcome(std::string_view name);

// What the error of a connect() means.
Outcome outcome_of_error(int error_number);

// One direction of a pair. Figures are 0 where they are not known.
struct PairResult {
  Outcome outcome = Outcome::NotMeasured;
  std::string words = {};         // why it is not Ok, with the kernel's words
  std::string from_address = {};  // "10.0.0.1:40112", as the kernel chose it
  std::string to_address = {};
  std::string interface = {};     // that has the address of `from_address`
  int64_t round_trip_ns = 0;      // median
  int64_t bytes_per_second = 0;   // of one connection
  int64_t packet_bytes_max = 0;   // the path's MTU as the sender knows it
  int64_t segment_bytes_max = 0;  // of TCP, without headers

  bool is_ok() const { return outcome == Outcome::Ok; }
  bool operator==(const PairResult&) const = default;
};

// How an interface moves bytes, as far as its name tells.
enum class InterfaceKind : uint8_t { Lan, WiFi, Thunderbolt, Container, Tunnel, Loopback };
InterfaceKind interface_kind(std::string_view name);
std::string_view interface_kind_name(InterfaceKind kind);

// "10.0.0.1" of "10.0.0.1:40112", "::1" of "[::1]:40112".
std::string host_of(std::string_view address);

}  // namespace mccl
