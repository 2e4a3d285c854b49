// The machine behind World: nodes with an egress and an ingress port, switches with an uplink,
// connections as two directed byte queues, and what each kind of event does to them. It knows no
// callbacks: it keeps a list of the nodes that are due for a step.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "mccl/wire.h"
#include "sim/byte_queue.h"
#include "sim/event_queue.h"
#include "sim/port.h"
#include "sim/world.h"

namespace mccl::sim {

using NodeIndex = uint32_t;
using EndIndex = uint32_t;

std::string address_of(NodeIndex node);

class Network {
 public:
  // `clock` and `events` are the world's and outlive the network.
  Network(const WorldOptions& options, const Clock& clock, EventQueue& events);
  ~Network();  // aborts while a wire still exists: it would point to nowhere

  NodeIndex add_node();
  size_t node_count() const { return nodes_.size(); }
  bool is_alive(NodeIndex node) const { return nodes_[node].state == NodeState::Alive; }
  uint64_t bytes_sent(NodeIndex node) const { return nodes_[node].bytes_sent; }

  void handle(const Event& event);  // any kind but Action
  void kill(NodeIndex node);
  void vanish(NodeIndex node);
  void pause(NodeIndex node);
  void resume(NodeIndex node);
  void reset(NodeIndex node, NodeIndex peer_node);
  bool may_step(NodeIndex node) const { return is_alive(node) && !nodes_[node].is_paused; }

  // The step list: each node is in it at most once, in the order in which it became due.
  void mark_due(NodeIndex node);
  size_t due_count() const { return due_.size(); }
  NodeIndex take_due();
  void end_step(NodeIndex node);  // passes on a turn to send that the step did not use

  // The faces of WireContext and Wire.
  Result<EndIndex> connect(NodeIndex node, const std::string& address, uint64_t token);
  std::optional<EndIndex> accept(NodeIndex node, uint64_t token);
  void poll(NodeIndex node, std::vector<WireEvent>& events);
  Result<size_t> write(EndIndex index, std::span<const iovec> pieces);
  Result<size_t> read(EndIndex index, std::span<const iovec> pieces);
  Status check_peer(EndIndex index);
  void close(EndIndex index);
  std::string describe(EndIndex index) const;
  std::string peer_address(EndIndex index) const { return address_of(ends_[index].peer_node); }
  void count_wires(int change) { wire_count_ += change; }

 private:
  static constexpr EndIndex kNone = UINT32_MAX;

  enum class NodeState : uint8_t { Alive, Killed, Vanished };
  enum class EndState : uint8_t { Connecting, Open, Closed };
  enum class SegmentKind : uint8_t { Data, Request, Reply, Refuse, Close };

  struct Node {
    explicit Node(int64_t bytes_per_second) : egress(bytes_per_second), ingress(bytes_per_second) {}
    NodeState state = NodeState::Alive;
    Port egress;
    Port ingress;
    bool is_sending = false;
    std::deque<EndIndex> senders;      // wires that wait for the egress port
    EndIndex turn = kNone;             // reads_late: the wire that was told to write now
    std::vector<TimeNs> last_arrival;  // by receiver: order is kept per pair of nodes
    std::vector<EndIndex> ends;        // every wire end it ever had
    std::deque<EndIndex> waiting;      // for accept()
    std::vector<EndIndex> reported;    // wire ends with events for the next poll()
    bool is_acceptable = false;
    bool is_due = false;
    bool is_paused = false;
    uint64_t bytes_sent = 0;
  };

  // One side of a connection, with the direction that leaves it. Bytes stay in `bytes` from write()
  // until the peer's read(); segments are only counts: read <= delivered <= sent <= written.
  struct WireEnd {
    explicit WireEnd(ByteChunkPool& pool) : bytes(pool) {}
    NodeIndex node = 0;
    NodeIndex peer_node = 0;
    EndIndex peer = kNone;
    uint64_t token = 0;
    EndState state = EndState::Connecting;
    bool is_server = false;
    bool has_wire = false;  // somebody holds its Wire: events make sense
    bool is_peer_closed = false;
    bool is_refused = false;  // nobody listened
    bool is_reset = false;
    bool is_silent = false;       // the peer was not heard for the peer timeout,
    bool is_given_up = false;     // and this end has failed by it
    bool is_queued = false;       // in senders
    bool wants_writable = false;  // the last write() took less than asked
    bool is_stalled = false;      // the peer has too much unread
    bool is_resuming = false;     // the event that ends the stall is under way
    bool is_in_reported = false;
    bool has_readable = false;
    bool has_writable = false;
    ByteQueue bytes;
    uint64_t written_bytes = 0;
    uint64_t sent_bytes = 0;
    uint64_t delivered_bytes = 0;
    uint64_t read_bytes = 0;
    uint64_t answered_bytes = 0;  // delivered before the peer vanished
    // Ends of writes, and of their long pieces, that are not sent yet: segments do not reach over
    // these marks, so that a message is readable when its last byte is there, not when the next
    // one's is.
    std::vector<uint64_t> part_ends;
    size_t first_part_end = 0;
    size_t unsent_bytes() const { return static_cast<size_t>(written_bytes - sent_bytes); }
    bool is_broken() const { return is_peer_closed || is_reset || is_given_up; }
    size_t unread_bytes() const { return static_cast<size_t>(delivered_bytes - read_bytes); }
  };

  // The port that a segment's first byte reaches next.
  enum class SegmentPlace : uint8_t { Uplink, Downlink, Ingress };

  struct Segment {
    SegmentKind kind;
    EndIndex receiver;
    size_t bytes;
    SegmentPlace place = SegmentPlace::Ingress;
  };

  // The uplink of a switch, seen from below.
  struct Switch {
    explicit Switch(int64_t bytes_per_second) : up(bytes_per_second), down(bytes_per_second) {}
    Port up;
    Port down;
  };

  bool is_vanished(NodeIndex node) const { return nodes_[node].state == NodeState::Vanished; }
  EndIndex add_end(NodeIndex node, NodeIndex peer_node);
  void report(EndIndex index, bool readable, bool writable);
  TimeNs draw_latency();
  size_t draw_segment_bytes(size_t available_bytes);
  size_t unsent_part_bytes(const WireEnd& end) const;
  void forget_sent_parts(WireEnd& end);
  uint32_t add_segment(const Segment& segment);
  void launch(SegmentKind kind, NodeIndex from, EndIndex receiver, size_t segment_bytes);
  void arrive(uint32_t segment_index);
  bool has_uplinks() const { return options_.nodes_per_switch > 0 && options_.uplink_ports > 0; }
  size_t switch_of(NodeIndex node) const {
    return node / static_cast<size_t>(options_.nodes_per_switch);
  }
  void deliver(const Segment& segment);
  void deliver_data(EndIndex receiver, size_t segment_bytes);
  void deliver_request(EndIndex server);
  void enqueue_sender(EndIndex index);
  void use_port(NodeIndex node);
  void start_segment(EndIndex index, size_t segment_bytes);
  bool is_blocked_by_peer(WireEnd& end);
  void end_stall(EndIndex index);
  size_t room_bytes(EndIndex index);
  void silence(Node& node);
  void expect_silence(EndIndex index, TimeNs last_heard);
  void notice_silence(EndIndex index);
  Status failure_of(const WireEnd& end) const;

  const WorldOptions options_;
  const Clock& clock_;
  EventQueue& events_;
  Prng prng_;
  ByteChunkPool pool_;
  std::deque<Node> nodes_;
  std::vector<Switch> switches_;  // empty when no uplink is ever the limit
  std::deque<WireEnd>
      ends_;  // never shrinks, so that a segment in the air never meets a reused end
  std::vector<Segment> segments_;
  std::vector<uint32_t> free_segments_;
  std::deque<NodeIndex> due_;
  int64_t wire_count_ = 0;
};

}  // namespace mccl::sim
