// What a lane can tell about its steps while it runs, for traces. Without an observer each step
// costs one branch.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mccl {

struct LaneCode;

// Why a lane cannot make its next step yet: the first reason that it meets.
enum class StepWait : uint8_t {
  Dependence,   // a step of another lane
  ReceiveTurn,  // an earlier operation still receives on the stream
  Message,      // nothing has arrived
  SendTurn,     // an earlier operation still sends on the stream
  Credit,       // the receiver has no room yet
  Capture,      // bytes that the step would overwrite have not left yet
};

// A step of a lane in flight.
struct StepPlace {
  uint64_t sequence;     // of the operation
  const LaneCode* code;  // lives at least as long as the operation
  int lane;
  int instance;
  int iteration;
  int step;
  size_t message_bytes;  // of what it takes or gives; of a local step, of what it works on
};

// Implementers do not block and do not call back into the engine. Called on the thread that drives.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  // The lane has looked and cannot go on; may come several times for one wait.
  virtual void on_wait(const StepPlace& place, StepWait wait) = 0;
  // The step was made, in one transition.
  virtual void on_step(const StepPlace& place) = 0;
};

}  // namespace mccl
