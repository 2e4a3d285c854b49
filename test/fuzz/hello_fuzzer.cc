// Bytes of a stranger, in pieces of any size, to the accepting and to the connecting side of a
// handshake, at its beginning or behind a right greeting: no link comes of it, and it ends in one
// refusal or in one failed link.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "sim/world.h"
#include "transport/transport.h"

namespace mccl {
namespace {

constexpr uint64_t kProcess = 2;
constexpr uint64_t kStranger = 1;

class Silent final : public LinkListener {
 public:
  void on_message_head(Link&, const FrameHeader&) override { MCCL_CHECK(false); }
  void on_leave(Link&, uint64_t, const Status&) override { MCCL_CHECK(false); }
  void on_link_failed(Link&, const Status&) override { ++failures; }
  int failures = 0;
};

class Case {
 public:
  Case()
      : world_({.latency_ns = 1'000}),
        node_(world_.add_node([this] { step(); })),
        stranger_(world_.add_node([] {})) {
    transport_ = std::make_unique<Transport>(
        world_.wires(node_),
        Identity{.process_id = kProcess, .token = 7, .secret = "s", .nonces = seeded_nonces(1)},
        listener_);
  }

  void accept(bool is_greeted, size_t piece, std::span<const uint8_t> bytes) {
    std::unique_ptr<Wire> wire = world_.wires(stranger_).connect("sim://0", 1).value();
    run();
    speak(*wire, is_greeted, piece, bytes);
    uint64_t refused = 0;
    for (size_t reason = 0; reason < kRefusalCount; ++reason)
      refused += transport_->refusals().count(static_cast<Refusal>(reason));
    MCCL_CHECK_EQ(refused, 1u);
    MCCL_CHECK_EQ(listener_.failures, 0);
  }

  void connect(bool is_greeted, size_t piece, std::span<const uint8_t> bytes) {
    MCCL_CHECK(transport_->connect({kStranger, 9, "sim://1"}, Initiative::Ours).is_ok());
    run();
    std::unique_ptr<Wire> wire = world_.wires(stranger_).accept(1);
    speak(*wire, is_greeted, piece, bytes);
    MCCL_CHECK_EQ(listener_.failures, 1);
  }

 private:
  // The whole of what the stranger says; it goes when nothing has come of it.
  void speak(Wire& wire, bool is_greeted, size_t piece, std::span<const uint8_t> bytes) {
    const Hello hello{.from = kStranger, .to = kProcess};
    if (is_greeted)
      send(wire, sizeof hello, {reinterpret_cast<const uint8_t*>(&hello), sizeof hello});
    send(wire, piece, bytes);
    MCCL_CHECK(!transport_->link(kStranger).has_wire());
    wire.close();
    run();
  }
  void run() {
    world_.wires(node_).wake();
    world_.run([] { return false; });
  }
  // The wire may be closed before all is sent.
  void send(Wire& wire, size_t piece, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      const size_t length = std::min(piece, bytes.size());
      std::vector<uint8_t> copy(bytes.begin(), bytes.begin() + static_cast<long>(length));
      const iovec part{copy.data(), length};
      if (!wire.write({&part, 1}).is_ok()) return;
      bytes = bytes.subspan(length);
      run();
    }
  }
  void step() {
    std::vector<WireEvent> events;
    world_.wires(node_).poll(0, events);
    transport_->handle(events, world_.clock().now());
    transport_->read();
    transport_->write(true);
    transport_->expire(world_.clock().now(), true);
  }

  Silent listener_;
  sim::World world_;
  int node_;
  int stranger_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace
}  // namespace mccl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const bool is_greeted = (data[0] & 2) != 0;
  const std::span<const uint8_t> bytes(data + 2, size - 2);
  mccl::Case one;
  if ((data[0] & 1) != 0)
    one.accept(is_greeted, size_t{1} + data[1], bytes);
  else
    one.connect(is_greeted, size_t{1} + data[1], bytes);
  return 0;
}
