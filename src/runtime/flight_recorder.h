// The last operations and messages of one communicator, always kept: what happened before a failure
// or a hang (dumps: src/comm/dump.h), and the fingerprints of law L9.
//
// Two rings, each allocated once; a record costs a few stores and, when it has waited or ends, a
// look at the clock. Everything belongs to the engine: one thread at a time, nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "mccl/types.h"
#include "transport/stream.h"

namespace mccl {

// Where a call stands. Of a collective: all but WaitsForPeer; of a message: all but WaitsForMemory.
enum class CallState : uint8_t {
  WaitsForMemory,  // an earlier operation in flight uses the same memory
  WaitsForDevice,  // the device's kernels that write its memory have not finished
  WaitsForPeer,    // a send that no receive was posted for, a receive that nothing came for
  Running,
  Complete,
  Failed,
};
std::string_view call_state_name(CallState state);  // "waits for memory", "running"

// What both kinds have. Times are the engine's clock's.
struct CallRecord {
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  TimeNs posted_at = 0;
  TimeNs started_at = kNever;  // of a message: when both ends had agreed on it
  TimeNs ended_at = kNever;
  CallState state = CallState::Running;
  CallState failed_in = CallState::Failed;  // the state before Failed
  bool is_staged = false;                   // stand-ins are used instead of the caller's memory
  bool has_device = false;                  // an asynchronous device uses the memory
};

struct OperationRecord : CallRecord {
  Fingerprint fingerprint = {};
  uint32_t plan = 0;  // comm's number of the plan: program and reason
  bool is_in_place = false;
};

struct MessageRecord : CallRecord {
  uint64_t peer_process = 0;  // 0: a receive from anybody that nothing came for
  int64_t tag = 0;
  DataType dtype = DataType::Float32;
  bool is_send = false;
};

class FlightRecorder {
 public:
  static constexpr size_t kRecorded = 1024;

  // `clock` outlives the recorder.
  explicit FlightRecorder(const Clock& clock) : clock_(clock), operations_(kRecorded) {}

  // The next operation: sequences are 0, 1, 2, ...
  void post(const OperationRecord& record) {
    MCCL_CHECK_EQ(record.sequence, operation_count_);
    operations_[operation_count_++ % kRecorded] = record;
  }
  void set_state(uint64_t sequence, CallState state) {
    if (is_recorded(sequence)) operations_[sequence % kRecorded].state = state;
  }
  void start(uint64_t sequence) {
    if (is_recorded(sequence)) start(operations_[sequence % kRecorded]);
  }
  // Complete, or Failed.
  void end(uint64_t sequence, CallState state) {
    if (is_recorded(sequence)) end(operations_[sequence % kRecorded], state);
  }

  // Whether the operation was posted and is one of the last kRecorded.
  bool is_recorded(uint64_t sequence) const {
    return sequence < operation_count_ && operation_count_ - sequence <= kRecorded;
  }
  const OperationRecord& operation(uint64_t sequence) const {
    MCCL_CHECK(is_recorded(sequence));
    return operations_[sequence % kRecorded];
  }
  const Fingerprint& fingerprint(uint64_t sequence) const {
    return operation(sequence).fingerprint;
  }
  // Null unless it is recorded.
  const Fingerprint* find_fingerprint(uint64_t sequence) const {
    return is_recorded(sequence) ? &operations_[sequence % kRecorded].fingerprint : nullptr;
  }

  // The next message; returns its number. The recorder fills in the number.
  uint64_t post_message(const MessageRecord& record);
  void set_message_state(uint64_t number, CallState state) {
    if (is_message_recorded(number)) messages_[number % kRecorded].state = state;
  }
  void start_message(uint64_t number, uint64_t peer_process) {
    if (!is_message_recorded(number)) return;
    messages_[number % kRecorded].peer_process = peer_process;
    start(messages_[number % kRecorded]);
  }
  void end_message(uint64_t number, CallState state) {
    if (is_message_recorded(number)) end(messages_[number % kRecorded], state);
  }

  // Oldest first.
  std::vector<OperationRecord> operations() const;
  std::vector<MessageRecord> messages() const;

 private:
  bool is_message_recorded(uint64_t number) const {
    return number < message_count_ && message_count_ - number <= kRecorded;
  }
  void start(CallRecord& record) {
    // What waited for nothing starts when it is posted: the clock need not be asked.
    record.started_at = record.state == CallState::Running ? record.posted_at : clock_.now();
    record.state = CallState::Running;
  }
  void end(CallRecord& record, CallState state) {
    if (state == CallState::Failed) record.failed_in = record.state;
    record.state = state;
    record.ended_at = clock_.now();
  }

  const Clock& clock_;
  std::vector<OperationRecord> operations_;  // of sequence s at s % kRecorded
  uint64_t operation_count_ = 0;
  std::vector<MessageRecord> messages_;  // empty before the first message
  uint64_t message_count_ = 0;
};

}  // namespace mccl
