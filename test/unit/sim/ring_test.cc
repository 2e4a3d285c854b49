// A hand-written ring all-reduce over raw wires: does the world cost what the model of a ring says,
// 2(N-1) max(alpha + slice/B, S/(N B)) + alpha?
//
// Each lane of a node is a small state machine: a step receives a slice (adds it in the first half
// of the steps, copies it in the second) and passes it on; all steps on one slice, then on the
// next.
#include <gtest/gtest.h>

#include <deque>

#include "talking_node.h"

namespace mccl::sim {
namespace {

struct RingShape {
  size_t node_count = 4;
  size_t lane_count = 1;
  size_t iteration_count = 1;
  size_t slice_bytes = 64 * 1024;
  bool has_data = true;  // false: only the traffic, so that large rings need no memory
  size_t chunk_bytes() const { return lane_count * iteration_count * slice_bytes; }
  size_t total_bytes() const { return node_count * chunk_bytes(); }
  size_t step_count() const { return 2 * (node_count - 1); }
};

// What node `node` contributes at `position`.
unsigned char own_byte(size_t node, size_t position) {
  return static_cast<unsigned char>(position * 7 + position / 65'536 + node * 31);
}

class RingNode {
 public:
  RingNode(World& world, const RingShape& shape)
      : shape_(shape), context_(nullptr), lanes_(shape.lane_count) {
    const int node = world.add_node([this] { step(); });
    context_ = &world.wires(node);
    node_ = static_cast<size_t>(node);
    if (shape.has_data) data_.resize(shape.total_bytes());
    for (size_t at = 0; at < data_.size(); ++at) data_[at] = own_byte(node_, at);
    for (Lane& lane : lanes_) lane.slice.resize(shape.slice_bytes);
  }

  void connect() {
    const std::string next = "sim://" + std::to_string((node_ + 1) % shape_.node_count);
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      lanes_[lane].out = context_->connect(next, lane).value();
    }
  }
  void start() { is_started_ = true; }
  bool is_done() const { return done_count_ == lanes_.size(); }
  const std::vector<unsigned char>& data() const { return data_; }

 private:
  struct Lane {
    std::unique_ptr<Wire> in;
    std::unique_ptr<Wire> out;
    std::vector<unsigned char> slice;
    size_t iteration = 0;
    size_t step = 0;
    size_t received_bytes = 0;
    size_t sent_bytes = 0;
  };

  void step() {
    std::vector<WireEvent> events;
    context_->poll(0, events);
    for (const WireEvent& event : events) {
      if (!event.acceptable) continue;
      // Connections between two nodes arrive in the order in which they were made.
      while (auto wire = context_->accept(lanes_.size() + accepted_count_)) {
        lanes_[accepted_count_++].in = std::move(wire);
      }
    }
    if (!is_started_) return;
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      while (lanes_[lane].iteration < shape_.iteration_count && advance(lane)) continue;
    }
  }

  // One step of one lane; false where it has to wait.
  bool advance(size_t lane_index) {
    Lane& lane = lanes_[lane_index];
    if (lane.step > 0 && lane.received_bytes < shape_.slice_bytes) {
      const iovec piece = {lane.slice.data() + lane.received_bytes,
                           shape_.slice_bytes - lane.received_bytes};
      lane.received_bytes += lane.in->read({&piece, 1}).value();
      if (lane.received_bytes < shape_.slice_bytes) return false;
      combine(lane_index);
    } else if (lane.step == 0 && lane.sent_bytes == 0 && shape_.has_data) {
      std::copy_n(position(lane_index), shape_.slice_bytes, lane.slice.data());
    }
    if (lane.step < shape_.step_count()) {
      const iovec piece = {lane.slice.data() + lane.sent_bytes,
                           shape_.slice_bytes - lane.sent_bytes};
      lane.sent_bytes += lane.out->write({&piece, 1}).value();
      if (lane.sent_bytes < shape_.slice_bytes) return false;
    }
    lane.received_bytes = lane.sent_bytes = 0;
    if (++lane.step <= shape_.step_count()) return true;
    lane.step = 0;
    if (++lane.iteration == shape_.iteration_count) ++done_count_;
    return true;
  }

  unsigned char* position(size_t lane_index) {
    const Lane& lane = lanes_[lane_index];
    const size_t chunk = (node_ + 2 * shape_.node_count - lane.step) % shape_.node_count;
    const size_t slice = lane.iteration * shape_.lane_count + lane_index;
    return data_.data() + chunk * shape_.chunk_bytes() + slice * shape_.slice_bytes;
  }

  void combine(size_t lane_index) {
    if (!shape_.has_data) return;
    Lane& lane = lanes_[lane_index];
    unsigned char* own = position(lane_index);
    for (size_t at = 0; at < shape_.slice_bytes; ++at) {
      const bool is_reducing = lane.step < shape_.node_count;
      own[at] = static_cast<unsigned char>(lane.slice[at] + (is_reducing ? own[at] : 0));
    }
    std::copy_n(own, shape_.slice_bytes, lane.slice.data());
  }

  const RingShape shape_;
  WireContext* context_;
  size_t node_ = 0;
  std::vector<Lane> lanes_;
  std::vector<unsigned char> data_;
  size_t accepted_count_ = 0;
  size_t done_count_ = 0;
  bool is_started_ = false;
};

// Nanoseconds from the common start until the last node is done.
TimeNs ring_time(const RingShape& shape, const WorldOptions& options) {
  World world(options);
  std::deque<RingNode> nodes;
  for (size_t node = 0; node < shape.node_count; ++node) nodes.emplace_back(world, shape);
  for (RingNode& node : nodes) node.connect();
  const TimeNs start = 10 * kNsPerMs;
  for (size_t node = 0; node < shape.node_count; ++node) {
    world.at(start, static_cast<int>(node), [&nodes, node] { nodes[node].start(); });
  }
  size_t done_count = 0;  // nodes finish in any order, but none goes back
  EXPECT_TRUE(world.run([&] {
    while (done_count < nodes.size() && nodes[done_count].is_done()) ++done_count;
    return done_count == nodes.size();
  }));
  for (const RingNode& node : nodes) {
    for (size_t at = 0; at < node.data().size(); at += 97) {
      unsigned char sum = 0;
      for (size_t from = 0; from < shape.node_count; ++from) {
        sum = static_cast<unsigned char>(sum + own_byte(from, at));
      }
      if (node.data()[at] == sum) continue;
      ADD_FAILURE() << "wrong sum at " << at;
      break;
    }
  }
  const uint64_t sent_bytes = shape.node_count * shape.step_count() * shape.chunk_bytes();
  EXPECT_EQ(world.bytes_sent(), sent_bytes);
  return world.clock().now() - start;
}

void expect_within_percent(TimeNs measured_ns, TimeNs expected_ns, double percent) {
  EXPECT_NEAR(static_cast<double>(measured_ns), static_cast<double>(expected_ns),
              static_cast<double>(expected_ns) * percent / 100);
}

TEST(Ring, FullyFedOnAShortLinkCostsTheModel) {
  WorldOptions options;
  options.latency_ns = 100'000;
  const RingShape shape = {.lane_count = 4};  // 1 MiB in all
  // 6 * 2^18 / 1.238 + 100'000
  expect_within_percent(ring_time(shape, options), 1'370'488, 0.01);
}

TEST(Ring, FullyFedOnTheDefaultLinkCostsTheModel) {
  const RingShape shape = {.lane_count = 8};  // 2 MiB in all
  // 6 * 2^19 / 1.238 + 306'000
  expect_within_percent(ring_time(shape, {}), 2'846'976, 0.01);
}

TEST(Ring, SeveralIterationsOfAFullWindowCostTheModel) {
  const RingShape shape = {.lane_count = 8, .iteration_count = 4};  // 8 MiB in all
  // 6 * 2^21 / 1.238 + 306'000
  expect_within_percent(ring_time(shape, {}), 10'469'905, 1);
}

TEST(Ring, WithOneLaneKeepsOneSliceInTheAirAndPaysALatencyForEach) {
  const RingShape shape = {.iteration_count = 4};  // 1 MiB in all
  // 4 * 6 * (306'000 + 2^16 / 1.238)
  expect_within_percent(ring_time(shape, {}), 8'614'488, 0.01);
}

TEST(Ring, WithTooFewLanesPaysLatencyAndTheFirstSlicesOfTheOtherLanes) {
  const RingShape shape = {.lane_count = 4};  // 1 MiB in all
  // 6 * (306'000 + 2^16 / 1.238) + 3 * 2^16 / 1.238
  expect_within_percent(ring_time(shape, {}), 2'312'433, 0.01);
}

TEST(Ring, OfTwoHundredNodesCostsTheModel) {
  const RingShape shape = {.node_count = 200, .lane_count = 4, .slice_bytes = 256};
  // 398 * (306'000 + 256 / 1.238) + 3 * 256 / 1.238
  expect_within_percent(ring_time(shape, {}), 121'870'920, 0.01);
}

TEST(Ring, IsExactOneByteAtATimeWithLateCaptureAndJitter) {
  WorldOptions options;
  options.segment_bytes_min = options.segment_bytes_max = 1;
  options.reads_late = true;
  options.latency_jitter = 1;
  options.queue_bytes_max = 64;
  ring_time({.node_count = 5, .lane_count = 2, .iteration_count = 2, .slice_bytes = 300}, options);
}

}  // namespace
}  // namespace mccl::sim
