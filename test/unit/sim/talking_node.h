// A node for tests: it accepts every connection, reads whatever comes, sends what it was told to
// send, and writes down when what happened.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mccl/wire.h"
#include "sim/world.h"

namespace mccl::sim {

inline Result<size_t> write_text(Wire& wire, std::string_view text) {
  const iovec piece = {const_cast<char*>(text.data()), text.size()};
  return wire.write({&piece, 1});
}

inline Result<size_t> read_into(Wire& wire, char* bytes, size_t count_bytes) {
  const iovec piece = {bytes, count_bytes};
  return wire.read({&piece, 1});
}

// What one step read from one wire.
struct Arrival {
  TimeNs time = 0;
  uint64_t token = 0;
  size_t bytes = 0;
  friend bool operator==(const Arrival&, const Arrival&) = default;
  friend void PrintTo(const Arrival& arrival, std::ostream* out) {
    *out << arrival.bytes << " bytes on " << arrival.token << " at " << arrival.time;
  }
};

class TalkingNode {
 public:
  static constexpr uint64_t kFirstAccepted = 100;  // tokens of accepted wires: 100, 101, ...

  explicit TalkingNode(World& world) : world_(world), node_(world.add_node([this] { step(); })) {}

  int node() const { return node_; }
  WireContext& context() { return world_.wires(node_); }
  Wire& wire(uint64_t token) { return *wires_.at(token); }
  bool has_wire(uint64_t token) const { return wires_.count(token) > 0; }
  void drop_wire(uint64_t token) { wires_.erase(token); }

  void connect(const TalkingNode& peer, uint64_t token) {
    wires_[token] = context().connect("sim://" + std::to_string(peer.node()), token).value();
  }

  // Sends at virtual time `time`; what the wire does not take at once follows when it can.
  void send_at(TimeNs time, uint64_t token, std::string text) {
    world_.at(time, node_, [this, token, text = std::move(text)] {
      unsent_[token] += text;
      flush(token);
    });
  }
  size_t unsent_bytes(uint64_t token) { return unsent_[token].size(); }

  void stop_reading() { is_reading_ = false; }
  void start_reading_at(TimeNs time) {
    world_.at(time, node_, [this] {
      is_reading_ = true;
      for (auto& [token, wire] : wires_) drain(token);
    });
  }

  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  const std::string& text(uint64_t token) { return text_[token]; }
  // The first error that reading the wire gave, and when.
  const Status& failure(uint64_t token) { return failures_[token].second; }
  TimeNs failure_time(uint64_t token) { return failures_[token].first; }
  TimeNs writable_time(uint64_t token) { return writable_times_[token]; }
  int step_count() const { return step_count_; }

 private:
  void step() {
    ++step_count_;
    std::vector<WireEvent> events;
    context().poll(0, events);
    for (const WireEvent& event : events) {
      if (event.acceptable) accept_all();
      if (event.writable) {
        writable_times_[event.token] = world_.clock().now();
        flush(event.token);
      }
      if (event.readable && is_reading_) drain(event.token);
    }
  }

  void accept_all() {
    while (auto wire = context().accept(next_token_)) wires_[next_token_++] = std::move(wire);
  }

  void flush(uint64_t token) {
    std::string& text = unsent_[token];
    while (!text.empty() && has_wire(token)) {
      const Result<size_t> taken = write_text(wire(token), text);
      if (!taken.is_ok() || taken.value() == 0) return;
      // The bytes must be gone from our memory: what is left behind is ruined at once.
      std::fill_n(text.begin(), taken.value(), '?');
      text.erase(0, taken.value());
    }
  }

  void drain(uint64_t token) {
    char bytes[8192];
    Arrival arrival = {world_.clock().now(), token, 0};
    while (has_wire(token)) {
      const Result<size_t> got = read_into(wire(token), bytes, sizeof bytes);
      if (!got.is_ok() && failures_.count(token) == 0) {
        failures_[token] = {world_.clock().now(), got.status()};
      }
      if (!got.is_ok() || got.value() == 0) break;
      arrival.bytes += got.value();
      text_[token].append(bytes, got.value());
    }
    if (arrival.bytes > 0) arrivals_.push_back(arrival);
  }

  World& world_;
  const int node_;
  std::map<uint64_t, std::unique_ptr<Wire>> wires_;
  std::map<uint64_t, std::string> unsent_;
  std::map<uint64_t, std::string> text_;
  std::map<uint64_t, std::pair<TimeNs, Status>> failures_;
  std::map<uint64_t, TimeNs> writable_times_;
  std::vector<Arrival> arrivals_;
  uint64_t next_token_ = kFirstAccepted;
  bool is_reading_ = true;
  int step_count_ = 0;
};

// 1000 ns of latency and one byte per nanosecond: times can be read off.
inline WorldOptions plain_link() {
  WorldOptions options;
  options.latency_ns = 1'000;
  options.bytes_per_second = 1'000'000'000;
  return options;
}

inline bool never() {
  return false;
}

// Bytes that no other position has, as far as a byte can tell.
inline std::string counting_text(size_t count_bytes) {
  std::string text(count_bytes, '\0');
  for (size_t index = 0; index < count_bytes; ++index) {
    text[index] = static_cast<char>((index * 131 + index / 251) & 0xff);
  }
  return text;
}

}  // namespace mccl::sim
