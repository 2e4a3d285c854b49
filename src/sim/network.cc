// How a segment travels. A segment is a part of a write and ends at the latest with a long piece of
// it, such as the bytes of a message. The egress port of its node takes it when the port is free:
// wires of a node that have bytes take turns, one segment each, so that a control frame waits for
// at most one segment of every other wire and never behind their queues. Its first byte reaches the
// receiver's ingress port one latency after it started; the ingress port serves segments in that
// order, each as soon as its first byte is there and the one before is through; when the last byte
// is through, the segment is readable. So an idle path costs latency + bytes / rate, and two
// senders to one node share its rate.
//
// Between two switches the first byte passes the sender's uplink and the receiver's downlink on its
// way to the ingress port: it goes on at once where these are free, else behind all that came
// before. They are at least as fast as a node's port, so that the last byte is never later there
// than at the ingress port, and only the first one is followed.
//
// What it leaves out: packet loss and acknowledgements. A sender stops while its peer has
// queue_bytes_max unread, which it knows at once, and goes on one latency after half of that was
// read. Opening and closing a connection cost a latency but no bandwidth, and keep their place in
// the order of the pair of nodes. The order of wires and steps follows from the event order alone.
// Tests: test/unit/sim.

#include "sim/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "base/check.h"

namespace mccl::sim {
namespace {

// Heads of messages are shorter, slices longer.
constexpr size_t kLongPieceBytes = 1024;
constexpr std::string_view kScheme = "sim://";

std::optional<NodeIndex> parse_address(std::string_view address) {
  if (address.substr(0, kScheme.size()) != kScheme) return std::nullopt;
  address.remove_prefix(kScheme.size());
  NodeIndex node = 0;
  const char* end = address.data() + address.size();
  const auto [stopped_at, error] = std::from_chars(address.data(), end, node);
  if (error != std::errc() || stopped_at != end) return std::nullopt;
  return node;
}

size_t total_bytes(std::span<const iovec> pieces) {
  size_t sum_bytes = 0;
  for (const iovec& piece : pieces) sum_bytes += piece.iov_len;
  return sum_bytes;
}

}  // namespace

std::string address_of(NodeIndex node) {
  return std::string(kScheme) + std::to_string(node);
}

Network::Network(const WorldOptions& options, const Clock& clock, EventQueue& events)
    : options_(options), clock_(clock), events_(events), prng_(options.seed) {
  MCCL_CHECK_LE(0, options.latency_ns);
  MCCL_CHECK_LT(0, options.bytes_per_second);
  MCCL_CHECK_LE(0, options.latency_jitter);
  MCCL_CHECK_LT(size_t{0}, options.queue_bytes_max);
  MCCL_CHECK_LT(size_t{0}, options.segment_bytes_max);
  MCCL_CHECK_LE(options.segment_bytes_min, options.segment_bytes_max);
  MCCL_CHECK_LE(options.segment_bytes_max, Port::kSegmentBytesMax);
  MCCL_CHECK_LE(0, options.nodes_per_switch);
  MCCL_CHECK_LE(0, options.uplink_ports);
  MCCL_CHECK_LE(0, options.peer_timeout_ns);
}

Network::~Network() {
  MCCL_CHECK_EQ(wire_count_, 0);
}

NodeIndex Network::add_node() {
  nodes_.emplace_back(options_.bytes_per_second);
  if (has_uplinks() && switch_of(static_cast<NodeIndex>(nodes_.size() - 1)) == switches_.size()) {
    switches_.emplace_back(options_.bytes_per_second * options_.uplink_ports);
  }
  return static_cast<NodeIndex>(nodes_.size() - 1);
}

void Network::mark_due(NodeIndex node) {
  if (nodes_[node].is_due || !is_alive(node)) return;
  nodes_[node].is_due = true;
  due_.push_back(node);
}

NodeIndex Network::take_due() {
  MCCL_CHECK(!due_.empty());
  const NodeIndex node = due_.front();
  due_.pop_front();
  nodes_[node].is_due = false;
  return node;
}

void Network::end_step(NodeIndex node) {
  if (nodes_[node].turn == kNone) return;
  nodes_[node].turn = kNone;
  use_port(node);
}

void Network::report(EndIndex index, bool readable, bool writable) {
  WireEnd& end = ends_[index];
  if (!end.has_wire || !is_alive(end.node)) return;
  end.has_readable |= readable;
  end.has_writable |= writable;
  if (!end.is_in_reported) {
    end.is_in_reported = true;
    nodes_[end.node].reported.push_back(index);
  }
  mark_due(end.node);
}

void Network::poll(NodeIndex node, std::vector<WireEvent>& events) {
  Node& polled = nodes_[node];
  if (polled.is_acceptable) events.push_back({.acceptable = true});
  polled.is_acceptable = false;
  for (const EndIndex index : polled.reported) {
    WireEnd& end = ends_[index];
    end.is_in_reported = false;
    if (end.state != EndState::Closed) {
      events.push_back(
          {.token = end.token, .readable = end.has_readable, .writable = end.has_writable});
    }
    end.has_readable = end.has_writable = false;
  }
  polled.reported.clear();
}

void Network::handle(const Event& event) {
  switch (event.kind) {
    case EventKind::PortFree:
      nodes_[event.index].is_sending = false;
      use_port(event.index);
      return;
    case EventKind::Arrive:
      arrive(event.index);
      return;
    case EventKind::Deliver: {
      const Segment segment = segments_[event.index];
      free_segments_.push_back(event.index);
      deliver(segment);
      return;
    }
    case EventKind::Resume:
      end_stall(event.index);
      return;
    case EventKind::Silence:
      notice_silence(event.index);
      return;
    case EventKind::Action:
      break;
  }
  MCCL_CHECK(event.kind != EventKind::Action);
}

TimeNs Network::draw_latency() {
  if (options_.latency_jitter == 0) return options_.latency_ns;
  const double extra_ns =
      static_cast<double>(options_.latency_ns) * options_.latency_jitter * prng_.unit();
  return options_.latency_ns + static_cast<TimeNs>(extra_ns);
}

size_t Network::draw_segment_bytes(size_t available_bytes) {
  size_t segment_bytes = options_.segment_bytes_max;
  const size_t min_bytes = options_.segment_bytes_min;
  if (min_bytes > 0 && min_bytes < segment_bytes) {
    segment_bytes = min_bytes + static_cast<size_t>(prng_.below(segment_bytes - min_bytes + 1));
  }
  return std::min(segment_bytes, available_bytes);
}

// What is left of the part of a write that is being sent.
size_t Network::unsent_part_bytes(const WireEnd& end) const {
  return static_cast<size_t>(end.part_ends[end.first_part_end] - end.sent_bytes);
}

void Network::forget_sent_parts(WireEnd& end) {
  while (end.first_part_end < end.part_ends.size() &&
         end.part_ends[end.first_part_end] <= end.sent_bytes)
    ++end.first_part_end;
  if (end.first_part_end * 2 < end.part_ends.size()) return;
  const auto first = end.part_ends.begin();
  end.part_ends.erase(first, first + static_cast<ptrdiff_t>(end.first_part_end));
  end.first_part_end = 0;
}

uint32_t Network::add_segment(const Segment& segment) {
  if (free_segments_.empty()) {
    segments_.push_back(segment);
    return static_cast<uint32_t>(segments_.size() - 1);
  }
  const uint32_t slot = free_segments_.back();
  free_segments_.pop_back();
  segments_[slot] = segment;
  return slot;
}

void Network::launch(SegmentKind kind, NodeIndex from, EndIndex receiver, size_t segment_bytes) {
  const NodeIndex to = ends_[receiver].node;
  std::vector<TimeNs>& last_arrival = nodes_[from].last_arrival;
  if (last_arrival.size() <= to) last_arrival.resize(nodes_.size(), 0);
  const TimeNs arrival = std::max(clock_.now() + draw_latency(), last_arrival[to]);
  last_arrival[to] = arrival;
  const bool is_uplinked = has_uplinks() && switch_of(from) != switch_of(to);
  const SegmentPlace place = is_uplinked ? SegmentPlace::Uplink : SegmentPlace::Ingress;
  events_.push(arrival, EventKind::Arrive, add_segment({kind, receiver, segment_bytes, place}));
}

void Network::arrive(uint32_t segment_index) {
  Segment& segment = segments_[segment_index];
  const WireEnd& end = ends_[segment.receiver];
  if (segment.place == SegmentPlace::Ingress) {
    Port& ingress = nodes_[end.node].ingress;
    events_.push(ingress.pass(clock_.now(), segment.bytes), EventKind::Deliver, segment_index);
    return;
  }
  const bool is_up = segment.place == SegmentPlace::Uplink;
  Port& port = is_up ? switches_[switch_of(end.peer_node)].up : switches_[switch_of(end.node)].down;
  const TimeNs begin = std::max(clock_.now(), port.free_at());
  port.pass(clock_.now(), segment.bytes);
  segment.place = is_up ? SegmentPlace::Downlink : SegmentPlace::Ingress;
  events_.push(begin, EventKind::Arrive, segment_index);
}

void Network::deliver(const Segment& segment) {
  WireEnd& end = ends_[segment.receiver];
  if (segment.kind == SegmentKind::Data) return deliver_data(segment.receiver, segment.bytes);
  if (segment.kind == SegmentKind::Request) return deliver_request(segment.receiver);
  if (end.state == EndState::Closed || end.is_reset) return;
  if (segment.kind == SegmentKind::Reply) {
    end.state = EndState::Open;
    return report(segment.receiver, false, true);
  }
  (segment.kind == SegmentKind::Refuse ? end.is_refused : end.is_peer_closed) = true;
  report(segment.receiver, true, true);
}

// A vanished node keeps its ends open but never reads, so that its peers' queues fill up as those
// of a kernel do that gets no acknowledgement.
void Network::deliver_data(EndIndex receiver, size_t segment_bytes) {
  WireEnd& end = ends_[receiver];
  WireEnd& sender = ends_[end.peer];
  if (end.is_reset) return;  // what was not there by then never comes
  sender.delivered_bytes += segment_bytes;
  const bool is_kept = end.state != EndState::Closed || is_vanished(end.node);
  if (is_kept) return report(receiver, true, false);
  sender.bytes.take(nullptr, segment_bytes);
  sender.read_bytes += segment_bytes;
}

void Network::deliver_request(EndIndex server) {
  WireEnd& end = ends_[server];
  Node& node = nodes_[end.node];
  if (is_vanished(end.node) || end.is_reset) return;
  if (node.state == NodeState::Killed) {
    end.state = EndState::Closed;
    return launch(SegmentKind::Refuse, end.node, end.peer, 0);
  }
  end.state = EndState::Open;
  launch(SegmentKind::Reply, end.node, end.peer, 0);
  node.waiting.push_back(server);
  node.is_acceptable = true;
  mark_due(end.node);
}

void Network::enqueue_sender(EndIndex index) {
  WireEnd& end = ends_[index];
  if (end.is_queued) return;
  end.is_queued = true;
  nodes_[end.node].senders.push_back(index);
}

// Starts the next segment if the port is idle. Under reads_late it tells the next wire to write
// instead, and waits for it until the end of that step.
void Network::use_port(NodeIndex node) {
  Node& sender = nodes_[node];
  if (sender.state != NodeState::Alive) return;
  while (!sender.is_sending && sender.turn == kNone && !sender.senders.empty()) {
    const EndIndex index = sender.senders.front();
    sender.senders.pop_front();
    WireEnd& end = ends_[index];
    end.is_queued = false;
    if (end.state != EndState::Open || end.is_broken() || is_blocked_by_peer(end)) continue;
    if (options_.reads_late) {
      sender.turn = index;
      end.wants_writable = false;
      report(index, false, true);
    } else if (end.unsent_bytes() > 0) {
      start_segment(index, draw_segment_bytes(unsent_part_bytes(end)));
      if (end.unsent_bytes() > 0) enqueue_sender(index);
    }
  }
}

bool Network::is_blocked_by_peer(WireEnd& end) {
  if (end.unread_bytes() >= options_.queue_bytes_max) end.is_stalled = true;
  return end.is_stalled;
}

void Network::start_segment(EndIndex index, size_t segment_bytes) {
  WireEnd& end = ends_[index];
  Node& node = nodes_[end.node];
  node.is_sending = true;
  node.turn = kNone;
  node.bytes_sent += segment_bytes;
  end.sent_bytes += segment_bytes;
  forget_sent_parts(end);
  events_.push(node.egress.pass(clock_.now(), segment_bytes), EventKind::PortFree, end.node);
  launch(SegmentKind::Data, end.node, end.peer, segment_bytes);
  const bool is_half_empty = end.unsent_bytes() <= options_.queue_bytes_max / 2;
  if (end.wants_writable && is_half_empty && !options_.reads_late) {
    end.wants_writable = false;
    report(index, false, true);
  }
}

void Network::end_stall(EndIndex index) {
  WireEnd& end = ends_[index];
  end.is_stalled = end.is_resuming = false;
  if (end.unsent_bytes() > 0 || (options_.reads_late && end.wants_writable)) enqueue_sender(index);
  use_port(end.node);
}

EndIndex Network::add_end(NodeIndex node, NodeIndex peer_node) {
  const auto index = static_cast<EndIndex>(ends_.size());
  WireEnd& end = ends_.emplace_back(pool_);
  end.node = node;
  end.peer_node = peer_node;
  if (node < nodes_.size()) nodes_[node].ends.push_back(index);
  return index;
}

Result<EndIndex> Network::connect(NodeIndex node, const std::string& address, uint64_t token) {
  const std::optional<NodeIndex> peer_node = parse_address(address);
  if (!peer_node) {
    return Status(StatusCode::InvalidArgument,
                  "\"" + address + "\" is not the address of a simulated node, as in sim://3");
  }
  const EndIndex client = add_end(node, *peer_node);
  ends_[client].token = token;
  ends_[client].has_wire = true;
  if (!is_alive(node)) {
    ends_[client].state = EndState::Closed;
    return client;
  }
  if (*peer_node >= nodes_.size()) {
    const TimeNs answer_time = clock_.now() + draw_latency() + draw_latency();
    events_.push(answer_time, EventKind::Deliver, add_segment({SegmentKind::Refuse, client, 0}));
    return client;
  }
  const EndIndex server = add_end(*peer_node, node);
  ends_[server].is_server = true;
  ends_[server].peer = client;
  ends_[client].peer = server;
  launch(SegmentKind::Request, node, server, 0);
  if (is_vanished(*peer_node)) expect_silence(client, clock_.now());
  return client;
}

std::optional<EndIndex> Network::accept(NodeIndex node, uint64_t token) {
  std::deque<EndIndex>& waiting = nodes_[node].waiting;
  if (waiting.empty()) return std::nullopt;
  const EndIndex index = waiting.front();
  waiting.pop_front();
  WireEnd& end = ends_[index];
  end.token = token;
  end.has_wire = true;
  if (end.is_broken()) report(index, true, true);
  if (ends_[end.peer].unread_bytes() > 0) report(index, true, false);
  return index;
}

Status Network::failure_of(const WireEnd& end) const {
  if (end.state == EndState::Closed) {
    return Status(StatusCode::Network, "the wire to " + address_of(end.peer_node) + " is closed");
  }
  if (end.is_refused) {
    return Status(StatusCode::Network, "nobody listens at " + address_of(end.peer_node));
  }
  if (end.is_reset) {
    return Status(StatusCode::PeerLost, "the connection of " + address_of(end.node) + " and " +
                                            address_of(end.peer_node) + " was reset");
  }
  if (end.is_given_up) {
    return Status(StatusCode::PeerLost,
                  fmt::format("no answer from {} for {:.1f} s", address_of(end.peer_node),
                              static_cast<double>(options_.peer_timeout_ns) /
                                  static_cast<double>(kNsPerSecond)));
  }
  if (end.is_peer_closed) {
    return Status(StatusCode::PeerLost,
                  address_of(end.peer_node) + " closed its connection to " + address_of(end.node));
  }
  return Status::ok();
}

// How much write() may take now.
size_t Network::room_bytes(EndIndex index) {
  WireEnd& end = ends_[index];
  const Node& node = nodes_[end.node];
  if (end.state != EndState::Open) return 0;
  if (!options_.reads_late) return options_.queue_bytes_max - end.unsent_bytes();
  const bool is_port_open = node.turn == index || node.turn == kNone;
  if (node.is_sending || !is_port_open || node.state != NodeState::Alive) return 0;
  return is_blocked_by_peer(end) ? 0 : draw_segment_bytes(SIZE_MAX);
}

Result<size_t> Network::write(EndIndex index, std::span<const iovec> pieces) {
  WireEnd& end = ends_[index];
  MCCL_RETURN_IF_ERROR(failure_of(end));
  const size_t asked_bytes = total_bytes(pieces);
  if (asked_bytes == 0) return size_t{0};
  const size_t taken_bytes = std::min(asked_bytes, room_bytes(index));
  size_t left_bytes = taken_bytes;
  for (const iovec& piece : pieces) {
    const size_t part_bytes = std::min(left_bytes, piece.iov_len);
    const bool is_blank =
        options_.carried_bytes_max > 0 && piece.iov_len > options_.carried_bytes_max;
    if (is_blank) end.bytes.append_blank(part_bytes);
    if (!is_blank && part_bytes > 0) end.bytes.append(piece.iov_base, part_bytes);
    left_bytes -= part_bytes;
    end.written_bytes += part_bytes;
    const bool is_end = piece.iov_len >= kLongPieceBytes || left_bytes == 0;
    if (part_bytes > 0 && is_end) end.part_ends.push_back(end.written_bytes);
  }
  end.wants_writable = taken_bytes < asked_bytes;
  if (options_.reads_late) {
    if (taken_bytes > 0) start_segment(index, taken_bytes);
    const bool may_queue = end.state == EndState::Open && !end.is_stalled;
    if (end.wants_writable && may_queue) enqueue_sender(index);
  } else if (taken_bytes > 0 && !end.is_stalled) {
    enqueue_sender(index);
    use_port(end.node);
  }
  return taken_bytes;
}

Result<size_t> Network::read(EndIndex index, std::span<const iovec> pieces) {
  WireEnd& end = ends_[index];
  if (end.state == EndState::Closed || end.peer == kNone) {
    MCCL_RETURN_IF_ERROR(failure_of(end));
    return size_t{0};
  }
  WireEnd& sender = ends_[end.peer];
  if (sender.unread_bytes() == 0) {
    MCCL_RETURN_IF_ERROR(failure_of(end));
    return size_t{0};
  }
  size_t taken_bytes = 0;
  for (const iovec& piece : pieces) {
    const size_t part_bytes = std::min(piece.iov_len, sender.unread_bytes());
    if (part_bytes > 0) sender.bytes.take(piece.iov_base, part_bytes);
    sender.read_bytes += part_bytes;
    taken_bytes += part_bytes;
  }
  const bool is_half_read = sender.unread_bytes() <= options_.queue_bytes_max / 2;
  if (sender.is_stalled && is_half_read && !sender.is_resuming) {
    sender.is_resuming = true;
    events_.push(clock_.now() + draw_latency(), EventKind::Resume, end.peer);
  }
  return taken_bytes;
}

void Network::close(EndIndex index) {
  WireEnd& end = ends_[index];
  if (end.state == EndState::Closed) return;
  end.state = EndState::Closed;
  end.has_wire = false;
  if (end.peer == kNone || !is_alive(end.node) || end.is_reset) return;
  WireEnd& sender = ends_[end.peer];
  sender.bytes.take(nullptr, sender.unread_bytes());
  sender.read_bytes = sender.delivered_bytes;
  launch(SegmentKind::Close, end.node, end.peer, 0);
}

std::string Network::describe(EndIndex index) const {
  const WireEnd& end = ends_[index];
  return address_of(end.node) + " -> " + address_of(end.peer_node) + " over sim";
}

}  // namespace mccl::sim
