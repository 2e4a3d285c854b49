// Frames of a peer that has proven itself and then says anything: to a rank in the middle of an
// all-reduce, a send and a receive. Whatever comes, its calls end or wait, no more is parked than
// credit was given for, and it can leave.
//
// The input is a list of items: raw bytes, or a frame with a right header whose fields are drawn
// from it, so that most of them reach what lies behind the first checks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "comm/simulated_group.h"

namespace mccl {
namespace {

constexpr size_t kParkedBytesMax = 8 << 20;

// Takes numbers from the input; zeros when it is used up.
class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool is_empty() const { return bytes_.empty(); }
  uint32_t take(size_t count) {
    uint32_t value = 0;
    for (const uint8_t byte : take_bytes(count)) value = value << 8 | byte;
    return value;
  }
  std::span<const uint8_t> take_bytes(size_t count) {
    const std::span<const uint8_t> taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> bytes_;
};

class Case {
 public:
  explicit Case(const std::shared_ptr<ProgramProver>& prover)
      : group_(2, {.latency_ns = 1'000},
               {.prover = prover, .has_timers = true, .log = [](int, std::string_view) {}}),
        node_(group_.world().add_node([] {})) {
    MCCL_CHECK(group_.add_communicator("world").is_ok());
    // We take the place of rank 0, whose id is the smaller one, so that ours is the connection.
    group_.world().pause(0);
    data_.assign(20'000, 1.0F);
    Communicator& victim = group_.communicator(1);
    works_ = {
        victim.all_reduce(data_.data(), data_.data(), 20'000, DataType::Float32, ReduceOp::Sum)
            .value(),
        victim.send(data_.data(), 100, DataType::Float32, 0, 3).value(),
        victim.recv(room_, 16, DataType::Float32, 0, 5).value()};
    greet();
  }

  void run(Input input) {
    while (!input.is_empty() && is_open_) {
      const uint32_t item = input.take(1);
      if (item % 8 == 0)
        send(input.take_bytes(item / 8 + 1));
      else
        send_frame(item % 8, input);
    }
    step();
    const CommunicatorStats stats = group_.communicator(1).stats();
    MCCL_CHECK_LE(stats.parked_bytes, kParkedBytesMax);
    wire_->close();
    step();
    group_.destroy_communicator(1);
    step();
    for (const std::shared_ptr<Work>& work : works_) MCCL_CHECK(work->is_done());
  }

 private:
  void greet() {
    const PeerAddress own = group_.endpoint(0).core().record().peer;
    const PeerAddress peer = group_.endpoint(1).core().record().peer;
    const Authenticator authenticator;
    ConnectorHandshake handshake(authenticator,
                                 Hello{.from = own.process_id, .to = peer.process_id},
                                 authenticator.make_key("", peer.token), "rank 1");
    wire_ = group_.world().wires(node_).connect(peer.address, 1).value();
    for (int round = 0; round < 3; ++round) {
      step();
      MCCL_CHECK(handshake.advance(*wire_).is_ok());
    }
    handshake.confirm();
    MCCL_CHECK(handshake.advance(*wire_).is_ok());
    step();
    // Its first frame tells which communicator it is.
    FrameHeader header;
    const iovec piece{&header, sizeof header};
    const Result<size_t> got = wire_->read({&piece, 1});
    MCCL_CHECK(got.is_ok() && got.value() == sizeof header && header.magic == kFrameMagic);
    communicator_ = header.communicator;
  }

  void send_frame(uint32_t shape, Input& input) {
    FrameHeader header;
    header.kind = static_cast<FrameKind>(1 + input.take(1) % 10);
    header.communicator = communicator_ + (shape == 7 ? 1 : 0);
    header.channel = shape == 6 ? kPointToPointChannel : input.take(1) << 24 | input.take(1) << 8;
    header.sequence = input.take(1);
    header.message_bytes = shape == 5 ? input.take(4) : input.take(2);
    const std::span<const uint8_t> fingerprint = input.take_bytes(24);
    std::copy(fingerprint.begin(), fingerprint.end(), header.fingerprint.begin());
    const std::span<const uint8_t> payload = input.take_bytes(input.take(2) % 600);
    header.payload_bytes = shape == 4 ? input.take(3) : static_cast<uint32_t>(payload.size());
    send({reinterpret_cast<const uint8_t*>(&header), sizeof header});
    send(payload);
  }

  void send(std::span<const uint8_t> bytes) {
    if (bytes.empty() || !is_open_) return;
    std::vector<uint8_t> copy(bytes.begin(), bytes.end());
    const iovec piece{copy.data(), copy.size()};
    is_open_ = wire_->write({&piece, 1}).is_ok();
    step();
    std::byte answer[4096];
    const iovec space{answer, sizeof answer};
    for (Result<size_t> got = wire_->read({&space, 1}); is_open_; got = wire_->read({&space, 1})) {
      is_open_ = got.is_ok();
      if (!is_open_ || got.value() == 0) break;
    }
  }

  // A while, so that questions about waits are asked, and far from every deadline.
  void step() {
    sim::World& world = group_.world();
    (void)world.run([] { return false; }, world.clock().now() + 300 * kNsPerMs);
  }

  SimulatedGroup group_;
  int node_;
  std::unique_ptr<Wire> wire_;
  bool is_open_ = true;
  uint64_t communicator_ = 0;
  std::vector<float> data_;
  float room_[16] = {};
  std::vector<std::shared_ptr<Work>> works_;
};

}  // namespace
}  // namespace mccl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto prover = std::make_shared<mccl::ProgramProver>();
  mccl::Case(prover).run(mccl::Input({data, size}));
  return 0;
}
