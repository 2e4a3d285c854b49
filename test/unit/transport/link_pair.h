// Two processes with one connection over the simulator's wires: the real streams and links.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "sim/world.h"
#include "transport/transport.h"

namespace mccl {

constexpr uint64_t kCommunicator = 77;
constexpr uint32_t kChannel = 3;

inline Fingerprint fingerprint_of(uint8_t value) {
  Fingerprint fingerprint{};
  fingerprint[0] = value;
  return fingerprint;
}

// Counts calls of wake().
struct CountingOwner final : StreamOwner {
  void wake() override { ++wakes; }
  int wakes = 0;
};

// One process: its transport, and what its listener heard.
class Process final : public LinkListener {
 public:
  Process(sim::World& world, uint64_t id, const std::string& secret = {})
      : id_(id), world_(world), node_(world.add_node([this] { step(); })) {
    transport_ = std::make_unique<Transport>(
        world.wires(node_),
        Identity{.process_id = id, .token = id * 10, .secret = secret, .nonces = seeded_nonces(id)},
        *this, [this](const std::string& line) { notices.push_back(line); });
  }

  Transport& transport() { return *transport_; }
  Link& link_to(const Process& peer) { return transport_->link(peer.id_); }
  PeerAddress address() const { return {id_, id_ * 10, world_.wires(node_).address()}; }
  int node() const { return node_; }

  void step() {
    std::vector<WireEvent> events;
    do {
      events.clear();
      world_.wires(node_).poll(0, events);
      transport_->handle(events, world_.clock().now());
    } while (pass());
    if (is_idle_at_end) transport_->write(true);
  }

  void on_message_head(Link&, const FrameHeader& head) override {
    heads.push_back(head.fingerprint);
  }
  void on_leave(Link&, uint64_t communicator, const Status& reason) override {
    leaves.push_back(std::to_string(communicator) + " " + reason.to_string());
  }
  void on_link_failed(Link&, const Status& status) override { failure = status; }

  std::vector<Fingerprint> heads;
  std::vector<std::string> leaves;
  std::vector<std::string> notices;
  Status failure;
  bool is_reading = true;
  bool is_idle_at_end = true;
  std::function<void()> on_pass = [] {};

 private:
  bool pass() {
    const bool has_read = is_reading && transport_->read();
    on_pass();
    const bool has_written = transport_->write(false);
    return has_read || has_written;
  }

  uint64_t id_;
  sim::World& world_;
  int node_;
  std::unique_ptr<Transport> transport_;
};

// `left` has the smaller id and connects.
struct LinkPair {
  explicit LinkPair(const sim::WorldOptions& options = {.latency_ns = 1'000})
      : world(options), left(world, 1), right(world, 2) {
    MCCL_CHECK(left.transport().connect(right.address()).is_ok());
    MCCL_CHECK(right.transport().connect(left.address()).is_ok());
    run();
  }

  // Both take steps until nothing can happen any more.
  void run() {
    world.wires(left.node()).wake();
    world.wires(right.node()).wake();
    world.run([] { return false; });
  }

  SendStream& send_end() { return left.link_to(right).send_stream(kCommunicator, kChannel); }
  RecvStream& recv_end() { return right.link_to(left).recv_stream(kCommunicator, kChannel); }

  sim::World world;
  Process left;
  Process right;
};

inline uint32_t post_bytes(SendStream& stream, std::string& bytes, uint8_t fingerprint = 1) {
  const iovec piece{bytes.data(), bytes.size()};
  return stream.post({&piece, 1}, fingerprint_of(fingerprint), {});
}

inline std::string text_of(const InMessage& message) {
  return {reinterpret_cast<const char*>(message.buffer.data()), message.bytes};
}

}  // namespace mccl
