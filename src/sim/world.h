// The deterministic world: virtual time, one seed, nodes joined by links with latency and
// bandwidth. The real transport, runtime and comm run in it; only wires, clocks and stores are its
// own. A seed repeats bit for bit. A world belongs to one thread.
//
// A segment leaves through its node's egress port (the node's wires with bytes take turns, a
// segment each), arrives one latency later, passes the receiver's ingress port behind what came
// before it, and is readable when its last byte is through. Both ports run at B. A wire whose peer
// has queue_bytes_max unread stops until half of that is read. Connecting takes one latency each
// way; opening and closing use no bandwidth.
//
// Nodes may stand at switches: node k at switch k / nodes_per_switch. What goes from one switch to
// another passes the uplink of the first and then that of the second, each direction a port of its
// own, first in, first out, without a limit to what waits there. The latency is the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mccl/wire.h"

namespace mccl::sim {

struct WorldOptions {
  uint64_t seed = 1;
  int64_t latency_ns = 306'000;              // alpha: from the first byte out to the first byte in
  int64_t bytes_per_second = 1'238'000'000;  // B: of each node's port, in each direction
  double latency_jitter = 0;  // a segment's latency is alpha * (1 + U(0, jitter)), in order
  size_t segment_bytes_max = 64 * 1024;  // what one event carries
  size_t segment_bytes_min = 0;          // 0: as much as was written; else segments are cut to a
                                         // random size in [min, max] (1, 1: one byte at a time)
  size_t queue_bytes_max = 4 << 20;      // bytes a wire takes before write() returns 0
  size_t carried_bytes_max = 0;  // longer pieces of a write take their time but carry no values:
                                 // for figures, where results do not matter. 0: all are carried
  int nodes_per_switch = 0;      // 0: one switch for all
  int uplink_ports = 0;     // a switch's uplink runs at so many times B; 0: it is never the limit
  bool reads_late = false;  // a wire captures written bytes as late as it may: write()
                            // takes only what the port can send at once
  int64_t peer_timeout_ns = 0;  // silence of a vanished node after which wires to it fail; 0: never
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();

  const Clock& clock() const;  // virtual time in nanoseconds, starting at 0

  // Adds a node. `step` is called (from run only, never re-entrantly) after events reached the
  // node, once for all events of one instant; it should do all the work that is possible now. Nodes
  // step in the order in which events reached them. The first step is whatever at() or wake() asks
  // for.
  int add_node(std::function<void()> step);

  // address(): "sim://NODE". Lives as long as the world; every wire must be destroyed before the
  // world is (checked). poll() never blocks; wake() makes the node due for a step at the present
  // moment.
  WireContext& wires(int node);

  // Calls `action` at virtual time `time_ns` (or now, if that has passed), then the node's step.
  // Nothing is called once the node was killed or has vanished.
  void at(TimeNs time_ns, int node, std::function<void()> action);

  // Bytes that have started to leave `node`, and the sum over all nodes, for assertions on traffic.
  uint64_t bytes_sent(int node) const;
  uint64_t bytes_sent() const;

  // A node that goes away; it makes no more steps. Killed: its peers read what was on its way, then
  // PeerLost, not before one latency has passed. Vanished: nothing at all comes from it any more,
  // and what peers send fills their queues.
  // After peer_timeout_ns idle wires to it read PeerLost, others once check_peer() is asked.
  void kill(int node);
  void vanish(int node);

  // A stopped process. It makes no step and runs no action until it is resumed, then at once what
  // it has missed. Its kernel meanwhile accepts connections, sends what was written, and takes what
  // comes until queue_bytes_max of a wire are unread.
  void pause(int node);
  void resume(int node);

  // Every connection between the two is reset now: both ends read what had arrived, then PeerLost.
  void reset(int node_a, int node_b);

  // Runs events in time order until `done()` holds (checked first and after each step), or nothing
  // is left to happen, or every event up to and including `deadline_ns` has happened (the clock
  // then shows deadline_ns). Returns whether done() held. May be called again to go on.
  bool run(const std::function<bool()>& done, TimeNs deadline_ns = kNever);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccl::sim
