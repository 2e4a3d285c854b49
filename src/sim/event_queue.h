// What will happen, in the order (time, order of scheduling): the only source of order in a world.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace mccl::sim {

enum class EventKind : uint8_t {
  PortFree,  // index: node whose egress port finished a segment
  Arrive,    // index: segment whose first byte reaches the next port on its way
  Deliver,   // index: segment whose last byte is there
  Resume,    // index: wire end that learns that its peer reads again
  Silence,   // index: wire end whose peer was not heard for the peer timeout
  Action,    // index: action of World::at
};

struct Event {
  TimeNs time = 0;
  uint64_t sequence = 0;
  uint32_t index = 0;
  EventKind kind = EventKind::Action;
};

class EventQueue {
 public:
  bool is_empty() const { return heap_.empty(); }
  TimeNs next_time() const { return heap_.top().time; }

  void push(TimeNs time, EventKind kind, uint32_t index) {
    heap_.push({time, next_sequence_++, index, kind});
  }
  Event pop() {
    MCCL_CHECK(!heap_.empty());
    const Event event = heap_.top();
    heap_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& left, const Event& right) const {
      return left.time != right.time ? left.time > right.time : left.sequence > right.sequence;
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  uint64_t next_sequence_ = 0;
};

}  // namespace mccl::sim
