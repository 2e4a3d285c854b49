// The ring as one would write it by hand over the library's streams: what the interpreter is
// measured against. Slices, credits, targets, kernels and channel sets are those of the program.
#include <cstring>

#include "base/check.h"
#include "device/cpu_device.h"
#include "ring_rank.h"
#include "runtime/layout.h"
#include "transport/transport.h"

namespace mccl {
namespace {

constexpr uint64_t kCommunicator = 1;
constexpr uint64_t kChannelSets = 4;
constexpr Fingerprint kFingerprint = {1};

// The slices of one instance: step s sends or receives chunk (rank - s) mod n.
struct RingLane final : StreamOwner {
  void wake() override {}

  SendStream* send = nullptr;
  RecvStream* recv = nullptr;
  int64_t instance = 0;
  int64_t iteration = 0;
  int step = 0;
  uint32_t last_position = 0;
};

class HandRank final : public RingRank, public LinkListener {
 public:
  HandRank(WireContext& wires, const Clock& clock, Store& store, int rank, int rank_count)
      : wires_(wires),
        clock_(clock),
        store_(store),
        rank_(rank),
        rank_count_(rank_count),
        transport_(wires, {.process_id = process_of(rank), .token = token_of(rank)}, *this) {
    const Status status = store.set("hand/" + std::to_string(rank), wires.address());
    MCCL_CHECK_EQ(status.to_string(), "ok");
  }

  void meet() override {
    right_ = &link_to((rank_ + 1) % rank_count_);
    left_ = &link_to((rank_ + rank_count_ - 1) % rank_count_);
  }

  void begin(float* data, int64_t count) override {
    data_ = data;
    cut_ = cut_ring(count, rank_count_);
    geometry_ = ChunkGeometry::of(count, rank_count_);
    const uint64_t set = sequence_ % kChannelSets;
    const auto slice_bytes = static_cast<size_t>(cut_.slice_elements) * sizeof(float);
    lanes_.clear();
    lanes_.resize(static_cast<size_t>(cut_.instances));
    for (RingLane& lane : lanes_) {
      lane.instance = &lane - lanes_.data();
      const auto channel = static_cast<uint32_t>(set << 24) | static_cast<uint32_t>(lane.instance);
      lane.send = &right_->send_stream(kCommunicator, channel);
      lane.recv = &left_->recv_stream(kCommunicator, channel);
      lane.send->add_owner(&lane, sequence_);
      lane.recv->add_owner(&lane, sequence_, 2, slice_bytes);
    }
    ++sequence_;
    run();
    transport_.write(false);
  }

  bool is_done() const override {
    for (const RingLane& lane : lanes_)
      if (lane.iteration < cut_.iterations || !lane.send->is_captured(lane.last_position))
        return false;
    return true;
  }

  void step() override {
    do {
      events_.clear();
      wires_.poll(0, events_);
      transport_.handle(events_, clock_.now());
    } while (pass(false));
    pass(true);
  }

  void on_message_head(Link&, const FrameHeader& head) override {
    MCCL_CHECK(head.fingerprint == kFingerprint);
  }
  void on_leave(Link&, uint64_t, const Status&) override {}
  void on_link_failed(Link&, const Status& status) override {
    // The other rank may end first.
    MCCL_CHECK(is_done());
    MCCL_CHECK(status.code() == StatusCode::PeerLost);
  }

 private:
  static uint64_t process_of(int rank) { return static_cast<uint64_t>(rank) + 1; }
  static uint64_t token_of(int rank) { return ~process_of(rank); }

  Link& link_to(int peer) {
    Result<std::optional<std::string>> address =
        store_.get("hand/" + std::to_string(peer), 10 * kNsPerSecond);
    MCCL_CHECK(address.is_ok() && address.value().has_value());
    const Status status = transport_.connect({process_of(peer), token_of(peer), *address.value()});
    MCCL_CHECK_EQ(status.to_string(), "ok");
    return transport_.link(process_of(peer));
  }

  bool pass(bool is_idle) {
    bool has_worked = transport_.read();
    has_worked |= run();
    has_worked |= transport_.write(is_idle);
    return has_worked;
  }

  bool run() {
    bool has_run = false;
    for (RingLane& lane : lanes_)
      while (lane.iteration < cut_.iterations && advance(lane)) has_run = true;
    return has_run;
  }

  bool advance(RingLane& lane) {
    const int last = 2 * rank_count_ - 2;
    const int step = lane.step;
    const int chunk = (rank_ - step + 2 * rank_count_) % rank_count_;
    const int64_t begin = (lane.iteration * cut_.instances + lane.instance) * cut_.slice_elements;
    const int64_t elements =
        std::clamp<int64_t>(geometry_.length(chunk) - begin, 0, cut_.slice_elements);
    float* place = data_ + geometry_.begin(chunk) + begin;
    const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
    iovec piece{place, bytes};
    if (step > 0 && !lane.recv->has_message()) {
      if (step >= rank_count_ && !lane.recv->has_target())
        lane.recv->post_target({&piece, 1}, bytes);
      return false;
    }
    if (step < last && !lane.send->has_credit(bytes)) return false;
    PooledBuffer owned;
    if (step > 0) {
      InMessage message = lane.recv->take(step < last || lane.iteration + 1 < cut_.iterations);
      MCCL_CHECK_EQ(message.bytes, bytes);
      if (step < rank_count_) {
        const bool keeps = step == rank_count_ - 1;
        void* target = keeps ? static_cast<void*>(place) : message.buffer.data();
        device_.reduce(DataType::Float32, ReduceOp::Sum, target, message.buffer.data(), place,
                       static_cast<size_t>(elements));
        piece.iov_base = target;
        if (!keeps) owned = std::move(message.buffer);
      } else if (!message.is_in_target) {
        std::memcpy(place, message.buffer.data(), bytes);
      }
    }
    if (step < last)
      lane.last_position = lane.send->post({&piece, 1}, kFingerprint, std::move(owned));
    const bool is_last_iteration = lane.iteration + 1 == cut_.iterations;
    if (step == last - 1 && is_last_iteration) lane.send->pass_on();
    if (step == last && is_last_iteration) lane.recv->pass_on();
    if (++lane.step > last) {
      lane.step = 0;
      ++lane.iteration;
    }
    return true;
  }

  WireContext& wires_;
  const Clock& clock_;
  Store& store_;
  int rank_;
  int rank_count_;
  CpuDevice device_;
  Transport transport_;
  Link* right_ = nullptr;
  Link* left_ = nullptr;
  float* data_ = nullptr;
  RingCut cut_{};
  ChunkGeometry geometry_;
  uint64_t sequence_ = 0;
  std::vector<RingLane> lanes_;
  std::vector<WireEvent> events_;
};

}  // namespace

std::unique_ptr<RingRank> make_hand_rank(WireContext& wires, const Clock& clock, Store& store,
                                         int rank, int rank_count) {
  return std::make_unique<HandRank>(wires, clock, store, rank, rank_count);
}

}  // namespace mccl
