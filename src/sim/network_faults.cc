// What goes wrong in a network: nodes that are killed, vanish or stop, connections that are reset.
//
// Silence is found as TCP finds it. A vanished node is last heard one latency after it vanished.
// When that is the peer timeout ago, an idle connection fails by itself, as its probes have gone
// unanswered; one with bytes that were never answered, or that waits to be made, fails when
// check_peer() is asked. Tests: test/unit/sim/failure_test.cc, fault_test.cc.

#include "sim/network.h"

namespace mccl::sim {

void Network::kill(NodeIndex node) {
  Node& killed = nodes_[node];
  if (killed.state != NodeState::Alive) return;
  for (const EndIndex index : killed.ends) {
    const WireEnd& end = ends_[index];
    // A request that is still in the air is refused when it arrives.
    const bool is_in_the_air = end.is_server && end.state == EndState::Connecting;
    if (!is_in_the_air) close(index);
  }
  silence(killed);
  killed.state = NodeState::Killed;
}

void Network::vanish(NodeIndex node) {
  Node& vanished = nodes_[node];
  if (vanished.state != NodeState::Alive) return;
  silence(vanished);
  vanished.state = NodeState::Vanished;
  if (options_.peer_timeout_ns == 0) return;  // nothing is drawn either
  for (const EndIndex index : vanished.ends) {
    if (ends_[index].peer != kNone) {
      expect_silence(ends_[index].peer, clock_.now() + draw_latency());
    }
  }
}

void Network::expect_silence(EndIndex index, TimeNs last_heard) {
  WireEnd& end = ends_[index];
  if (options_.peer_timeout_ns == 0 || end.state == EndState::Closed) return;
  end.answered_bytes = end.delivered_bytes;
  events_.push(last_heard + options_.peer_timeout_ns, EventKind::Silence, index);
}

void Network::notice_silence(EndIndex index) {
  WireEnd& end = ends_[index];
  end.is_silent = true;
  const bool is_idle = end.state == EndState::Open && end.written_bytes == end.answered_bytes;
  if (!is_idle || end.is_broken()) return;
  end.is_given_up = true;
  report(index, true, true);
}

Status Network::check_peer(EndIndex index) {
  WireEnd& end = ends_[index];
  const bool is_up = end.state != EndState::Closed && !end.is_refused && !end.is_broken();
  if (end.is_silent && is_up) end.is_given_up = true;
  return end.is_given_up && end.state != EndState::Closed ? failure_of(end) : Status::ok();
}

void Network::pause(NodeIndex node) {
  if (is_alive(node)) nodes_[node].is_paused = true;
}

// What it has missed is still reported: one step sees all of it.
void Network::resume(NodeIndex node) {
  if (!nodes_[node].is_paused) return;
  nodes_[node].is_paused = false;
  mark_due(node);
}

void Network::reset(NodeIndex node, NodeIndex peer_node) {
  for (const EndIndex index : nodes_[node].ends) {
    WireEnd& end = ends_[index];
    if (end.peer_node != peer_node || end.peer == kNone) continue;
    WireEnd& peer = ends_[end.peer];
    if (end.state == EndState::Closed || peer.state == EndState::Closed) continue;
    end.is_reset = peer.is_reset = true;
    report(index, true, true);
    report(end.peer, true, true);
  }
}

void Network::silence(Node& node) {
  for (const EndIndex index : node.senders) ends_[index].is_queued = false;
  node.senders.clear();
  node.turn = kNone;
  node.waiting.clear();
  node.reported.clear();
  node.is_acceptable = false;
  node.is_paused = false;
}

}  // namespace mccl::sim
