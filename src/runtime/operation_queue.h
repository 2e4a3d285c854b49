// The operations of one communicator: admission in ticket order, fingerprints, completion, failure.
//
// An error is fatal to the communicator: the first one is what every operation, in flight or later,
// reports. Failing is deferred: fail() notes the cause, settle() carries it out at a point where no
// lane or link is in the middle of something.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/flight_recorder.h"
#include "runtime/operation.h"

namespace mccl {

// What an operation in flight waits for.
struct OperationWait {
  uint64_t sequence = 0;
  std::string text;
  std::vector<uint64_t> processes;  // the peers among it, each once
};

// What a process has announced of a call.
struct CallHead {
  Fingerprint fingerprint;
  std::optional<uint64_t> process = {};  // empty: this one
};

class OperationQueue {
 public:
  // What the queue cannot say by itself: a fingerprint's meaning is comm's business.
  struct Words {
    // The error when two processes' calls of `sequence` differ; the first may be this one.
    std::function<Status(uint64_t sequence, const CallHead& first, const CallHead& second)>
        mismatch;
    // Who holds the oldest operation up, for the error of a deadline that has passed; may be empty.
    std::function<std::string()> holdups = {};
    // Lets `peer_process` compare its call of `sequence` with ours.
    std::function<void(uint64_t sequence, const Fingerprint& local, uint64_t peer_process)> ask =
        {};
  };

  OperationQueue(RunQueue& run_queue, const Device& device, BufferPool& pool,
                 FlightRecorder& recorder, Words words);
  ~OperationQueue();

  // Takes the next operation; sequences are 0, 1, 2, ... Its lanes join their streams at once and
  // run when no earlier operation in flight uses the same memory. Requires !has_failed().
  void post(OperationSpec spec);

  // Starts what waited for a device that is ready.
  void start_produced();

  // Compares an arriving message's fingerprint with the local call of its sequence: in flight,
  // future or one of the last 1,024 (law L9).
  void on_message_head(uint64_t sequence, const Fingerprint& fingerprint, uint64_t peer_process);

  // From the interpreter.
  void on_operation_finished(Operation& operation);
  // The next message is one of another operation: the peer has gone past this one without sending,
  // so it made another call. It is asked to compare; the answer is the error.
  void on_foreign_message(const Operation& operation, const RecvStream& stream);
  void on_wrong_message(const Operation& operation, const RecvStream& stream,
                        const InMessage& message, size_t expected_bytes);
  void on_unwanted_message(const Operation& operation, const SendStream& stream, size_t bytes);

  // Told about every step from now on; null: nobody. It outlives the queue.
  void set_observer(StepObserver* observer) { observer_ = observer; }
  StepObserver* observer() const { return observer_; }

  // Of the operations in flight, at most kWaitsMax; once they have failed, what they waited for.
  static constexpr size_t kWaitsMax = 64;
  std::vector<OperationWait> waits() const;
  // Before the streams of a queue that has failed end.
  void keep_waits() { last_waits_ = waits(); }
  FlightRecorder& recorder() { return recorder_; }

  // Notes the first error.
  void fail(const Status& status);
  bool has_failed() const { return !failure_.is_ok(); }
  const Status& failure() const { return failure_; }
  // Whether fail() was called and settle() has not been since.
  bool needs_settling() const { return needs_settling_; }
  // Completes every operation in flight with the failure and drops it. The caller has ended the
  // communicator's streams.
  void settle();

  // Frees operations that are over; called when no lane runs.
  void sweep() { finished_.clear(); }

  // Fails the queue when an operation's deadline has passed, or when a device's stream has waited
  // for a collective for the limit without one being completed; returns the next deadline.
  TimeNs expire(TimeNs now);
  // A device may end its stream's wait by itself after some seconds, and go on with wrong data: the
  // communicator fails before. 0: no limit.
  void limit_device_waits(TimeNs limit_ns) { device_wait_limit_ns_ = limit_ns; }

  // The oldest operation in flight; null: there is none.
  const Operation* oldest() const {
    return operations_.empty() ? nullptr : operations_.front().get();
  }
  // Whether an operation in flight has messages to send over `link`, or waits for more messages
  // from it than have arrived.
  bool needs_link(const Link& link) const;

  uint64_t posted_count() const { return next_sequence_; }
  // When the last operation was posted; 0: never.
  TimeNs posted_at() const { return posted_at_; }
  uint64_t completed_count() const { return completed_count_; }
  size_t in_flight_count() const { return operations_.size(); }

 private:
  TimeNs expire_device_wait(TimeNs now);
  TimeNs expire_doubt(TimeNs now);

  RunQueue& run_queue_;
  const Device& device_;
  BufferPool& pool_;
  FlightRecorder& recorder_;
  Words words_;
  StepObserver* observer_ = nullptr;
  std::vector<std::unique_ptr<Operation>> operations_;  // in ticket order
  std::vector<std::unique_ptr<Operation>> finished_;
  std::vector<OperationWait> last_waits_;
  std::map<uint64_t, CallHead> future_heads_;
  uint64_t next_sequence_ = 0;
  TimeNs posted_at_ = 0;
  uint64_t completed_count_ = 0;
  TimeNs next_deadline_ = kNever;
  size_t awaiting_device_count_ = 0;
  bool has_seen_devices_ = false;
  // Since when a device's stream has waited, and how many operations were completed then.
  TimeNs device_wait_limit_ns_ = 0;
  TimeNs device_wait_since_ = kNever;
  uint64_t device_wait_ = 0;  // which of the stream's waits it is
  // What it comes to if the peer that was asked to compare finds nothing; ok: nobody was asked.
  Status doubt_;
  TimeNs doubt_since_ = kNever;
  Status failure_;
  bool needs_settling_ = false;
};

}  // namespace mccl
