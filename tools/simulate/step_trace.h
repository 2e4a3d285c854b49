// A trace of simulated ranks in the JSON that Chrome's tracing and Perfetto read: a process per
// rank, a row per lane of an operation, slices for steps with what they waited for inside, arrows
// from the step that sends a message to the one that takes it.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "runtime/step_observer.h"

namespace mccl {

class StepTrace {
 public:
  // Written to while ranks run; both outlive the trace.
  StepTrace(std::ostream& out, int rank_count);
  ~StepTrace();

  StepObserver* observer(int rank);

  // Nothing is recorded before; `clock` shows this moment, which becomes time 0.
  void begin(const Clock& clock);
  void note_call(int rank, uint64_t sequence, std::string_view name);
  void note_completion(int rank, uint64_t sequence, std::string_view name);
  // Ends the JSON; nothing may follow.
  void end();

  uint64_t event_count() const { return event_count_; }

 private:
  class RankObserver;

  void write(const std::string& event);
  double now_us() const;

  std::ostream& out_;
  const Clock* clock_ = nullptr;
  TimeNs begin_ns_ = 0;
  uint64_t event_count_ = 0;
  std::vector<std::unique_ptr<RankObserver>> observers_;
};

}  // namespace mccl
