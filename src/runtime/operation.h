// One collective in flight: its lanes, its scratch memory, its completion or error.
//
// States: posted (its lanes own their places at the streams) -> admitted (no earlier operation of
// the communicator overlaps its memory, law L3, and the device's kernels that write it have
// finished, law L13) -> every lane has run all iterations -> every
// message is captured -> complete. Everything here belongs to the engine: one thread at a time,
// nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mccl/communicator.h"
#include "mccl/device.h"
#include "mccl/status.h"
#include "mccl/types.h"
#include "runtime/device_call.h"
#include "runtime/layout.h"
#include "runtime/rank_code.h"
#include "runtime/run_queue.h"
#include "runtime/step_observer.h"
#include "transport/stream.h"

namespace mccl {

class LaneRun;
class Operation;
class OperationQueue;

// How a call is cut: law L1. The same numbers on every rank.
struct CallShape {
  int iterations = 1;  // T
  // Each lane has as many iterations as its own longest chunk needs: for programs in which a lane
  // moves blocks between two ranks only, who both know their lengths (all_to_all). The first slice
  // needs no grant and the last one is shorter than its room, so that a receiver that expects
  // another length always sees it.
  bool is_cut_by_lane = false;
  int instances = 1;           // m
  int64_t slice_elements = 1;  // iterations * instances * slice_elements >= the longest chunk
  uint32_t messages = 2;       // outstanding per stream, at least two
};

// A lane's places at its streams; null where the lane has no such peer.
struct LaneStreams {
  SendStream* send = nullptr;
  RecvStream* recv = nullptr;
};

// Told once when the operation is over. Called by the engine with its state consistent; must not
// block and must not call back into the engine.
class OperationSink {
 public:
  virtual ~OperationSink() = default;
  virtual void on_complete(const Status& status) = 0;
};

struct OperationSpec {
  uint64_t sequence = 0;
  std::shared_ptr<const RankCode> code;
  std::vector<LaneStreams> streams;  // [lane * instances + instance]
  CallShape shape;
  CallBuffers buffers;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int rank_count = 1;
  bool waits_for_earlier = false;  // admitted after every earlier operation (barrier)
  Fingerprint fingerprint = {};
  TimeNs posted_at = 0;
  uint32_t plan = 0;   // comm's number of the plan: for the flight recorder, like the next
  uint64_t bytes = 0;  // that the call moves
  TimeNs deadline = kNever;
  std::shared_ptr<const StandIn> stand_in;  // null: the buffers are the caller's own memory
  std::shared_ptr<DeviceCall> device;       // null: the memory is the CPU's
  std::shared_ptr<OperationSink> sink;
};

// One lane of one instance: a state machine that advances when its message has arrived, its credit
// is there and its dependences are met (law L1: iteration-major, a step is one transition).
class LaneRun final : public Runnable {
 public:
  LaneRun(Operation& operation, const LaneCode& code, LaneStreams streams, int instance,
          int iterations)
      : operation_(&operation),
        code_(&code),
        streams_(streams),
        instance_(instance),
        iterations_(iterations) {}

  void wake() override;
  uint64_t advance() override;

  bool is_finished() const { return state_ == State::Finished; }
  // What the lane waits for: "message 3 from rank 2 on channel 0"; for time-outs.
  std::string describe_wait() const;
  // The peer that the lane waits for; null when it waits for none.
  const Link* waited_peer() const;
  const LaneStreams& streams() const { return streams_; }
  // Messages that the lane has still to give and to take.
  int64_t sends_left() const;
  int64_t receives_left() const;

 private:
  friend class Operation;
  enum class State : uint8_t { Running, Draining, Finished };

  // One chunk of an operand within this iteration's slice.
  struct Piece {
    std::byte* data;
    int64_t elements;
  };

  bool is_ready(const StepCode& step);
  // Of a step that is not ready. Changes nothing.
  StepWait find_wait(const StepCode& step) const;
  StepPlace place(const StepCode& step) const;
  bool are_captured(const StepCode& step);
  bool are_done(const StepCode& step) const;
  void offer_target(const StepCode& step);
  void execute(const StepCode& step);
  void execute_local(const StepCode& step);
  // Applies a receiving step's message to memory; what is to be sent on is in `pieces_` or
  // `message`.
  void consume(const StepCode& step, InMessage& message);
  void finish_step(const StepCode& step);
  void drain();
  // The part of every chunk that this iteration moves.
  struct Slice {
    int64_t begin;
    int64_t elements_max;
  };
  Slice slice() const;
  Piece piece(const StepCode& step, const Operand& operand, int chunk) const;
  size_t message_bytes(const StepCode& step) const;
  void append_pieces(const StepCode& step, const Operand& operand);

  Operation* operation_;
  const LaneCode* code_;
  LaneStreams streams_;
  int instance_;
  int iterations_;
  State state_ = State::Running;
  bool is_announced_ = false;
  int64_t sent_count_ = 0;
  int64_t received_count_ = 0;
  uint32_t first_position_ = 0;  // stream position before the lane's first message
  int iteration_ = 0;
  int step_ = 0;
  static constexpr size_t kUnknownBytes = SIZE_MAX;
  mutable size_t step_bytes_ = kUnknownBytes;  // of the message of step_ in iteration_
  std::vector<iovec> pieces_;
};

struct AddressRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool is_empty() const { return begin == end; }
  bool overlaps(const AddressRange& other) const {
    return !is_empty() && !other.is_empty() && begin < other.end && other.begin < end;
  }
};

// What a call reads or writes: blocks of a call, or the ranges for which they stand in.
struct MemoryList {
  std::span<const Block> blocks;
  size_t element_bytes = 1;
  std::span<const StandIn::Range> ranges;
};

class Operation {
 public:
  Operation(OperationSpec spec, RunQueue& run_queue, const Device& device, BufferPool& pool,
            OperationQueue& queue);

  uint64_t sequence() const { return spec_.sequence; }
  const OperationSpec& spec() const { return spec_; }
  bool is_admitted() const { return blocker_count_ == 0; }

  // Takes the lanes' places at their streams. Called in ticket order.
  void join_streams();
  // Lets the lanes run; scratch is taken here.
  void start();
  // Takes the lanes out of the run queue: the operation is about to be destroyed.
  void stop();

  // Whether the memory that one of the two writes meets memory that the other uses (law L3).
  bool conflicts_with(const Operation& other) const;

  // What the unfinished lanes wait for, at most `count_max` of them.
  std::string describe_waits(size_t count_max) const;
  // The processes that its lanes wait for, each once; empty when it waits for something of this
  // rank.
  std::vector<uint64_t> waited_peers() const;
  std::span<const LaneRun> lanes() const { return lanes_; }

 private:
  friend class LaneRun;
  friend class OperationQueue;

  const ChunkGeometry& geometry(int block) const { return geometry_[static_cast<size_t>(block)]; }
  MemoryList reads() const;
  MemoryList writes() const;
  void measure_memory();
  // One of the reasons not to run is gone: starts when it was the last one.
  void unblock();
  int64_t longest_chunk(const LaneCode& code) const;
  // Of operations that are cut by lane.
  int64_t first_slice_elements() const;
  int count_iterations(const LaneCode& code) const;
  void on_lane_finished();

  OperationSpec spec_;
  RunQueue& run_queue_;
  const Device& device_;
  BufferPool& pool_;
  OperationQueue& queue_;
  size_t element_bytes_;
  // From the first to the last byte that is written, and that is used at all: two operations whose
  // extents lie apart are not looked at closer.
  AddressRange written_;
  AddressRange used_;
  std::vector<ChunkGeometry> geometry_;  // per block of the output, then of the input
  int64_t scratch_chunk_elements_ = 0;
  PooledBuffer scratch_;
  std::vector<LaneRun> lanes_;
  size_t unfinished_lanes_ = 0;
  int blocker_count_ = 0;
  bool awaits_device_ = false;  // is one of the blockers
  std::vector<Operation*> dependents_;
};

}  // namespace mccl
