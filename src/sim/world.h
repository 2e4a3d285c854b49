// The deterministic world: virtual time, one seed, nodes joined by links with latency and bandwidth.
// The real transport, runtime and comm run in it; only wires, clocks and stores are its own. A seed
// repeats bit for bit.
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
  int64_t latency_ns = 306'000;                 // alpha: from the first byte out to the first byte in
  int64_t bytes_per_second = 1'238'000'000;     // B: of each node's port, in each direction
  double latency_jitter = 0;                    // a segment's latency is alpha * (1 + U(0, jitter)), in order
  size_t segment_bytes_max = 64 * 1024;         // what one event carries
  size_t segment_bytes_min = 0;                 // 0: as much as was written; else segments are cut to a
                                                // random size in [min, max] (1, 1: one byte at a time)
  size_t queue_bytes_max = 4 << 20;             // bytes a wire takes before write() returns 0
  bool reads_late = false;                      // a wire captures written bytes as late as it may: write()
                                                // takes only what the port can send at once
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();

  const Clock& clock() const;  // virtual time in nanoseconds, starting at 0

  // Adds a node. `step` is called (from run only, never re-entrantly) after events reached the node;
  // it should do all the work that is possible now.
  int add_node(std::function<void()> step);
  WireContext& wires(int node);  // address(): "sim://NODE"; lives as long as the world

  // Calls `action` at virtual time `time_ns` (or now, if that has passed), then the node's step.
  void at(TimeNs time_ns, int node, std::function<void()> action);

  // Bytes that have left `node` and total over all nodes, for assertions on traffic.
  uint64_t bytes_sent(int node) const;

  // A node that goes away: its wires read PeerLost at the peers after one latency (stops = false), or
  // nothing at all happens any more (vanishes).
  void kill(int node);
  void vanish(int node);

  // Runs events in time order until `done()` holds (checked after each step) or nothing is left to
  // happen or `deadline_ns` is reached. Returns whether done() held.
  bool run(const std::function<bool()>& done, TimeNs deadline_ns = kNever);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccl::sim
