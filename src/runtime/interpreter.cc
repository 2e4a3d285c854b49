// The interpreter: how a lane makes a step (law L1).
//
// A step waits for its dependences, for the capture of sends whose memory it overwrites (law L3),
// for its message and for its credit. Then it takes, computes and gives in one transition: a
// message that is taken returns its credit at once, a message that is given is only queued. Data is
// touched once, while it is hot: a received slice is reduced into its destination and sent on from
// there, or, when nobody keeps it, reduced in the message's own memory and sent on without a copy.
#include <cstring>

#include "base/check.h"
#include "runtime/operation.h"
#include "runtime/operation_queue.h"

namespace mccl {

void LaneRun::wake() {
  operation_->run_queue_.push(*this);
}

uint64_t LaneRun::advance() {
  uint64_t steps = 0;
  if (!operation_->is_admitted()) return steps;
  while (state_ == State::Running) {
    if (code_->steps.empty()) {
      state_ = State::Draining;
      break;
    }
    const StepCode& step = code_->steps[static_cast<size_t>(step_)];
    StepObserver* const observer = operation_->queue_.observer();
    if (!is_ready(step)) {
      if (observer != nullptr) observer->on_wait(place(step), find_wait(step));
      return steps;
    }
    if (step.receives || step.sends) {
      execute(step);
    } else {
      execute_local(step);
    }
    if (observer != nullptr) observer->on_step(place(step));
    finish_step(step);
    ++steps;
  }
  if (state_ == State::Draining) drain();
  return steps;
}

bool LaneRun::is_ready(const StepCode& step) {
  if (!are_done(step) || !are_captured(step)) return false;
  if (step.receives) {
    if (!streams_.recv->is_owned_by(this)) return false;
    if (!streams_.recv->has_message()) {
      offer_target(step);
      return false;
    }
    if (streams_.recv->next().sequence != operation_->spec_.sequence) [[unlikely]] {
      operation_->queue_.on_foreign_message(*operation_, *streams_.recv);
      return false;
    }
  }
  if (step.sends) {
    if (!streams_.send->is_owned_by(this)) return false;
    const size_t bytes = message_bytes(step);
    if (!streams_.send->has_credit(bytes)) {
      if (streams_.send->is_too_long(bytes))
        operation_->queue_.on_unwanted_message(*operation_, *streams_.send, bytes);
      // A receiver that made another call may never grant: it is to see which call this is (L9).
      if (!is_announced_ && bytes > kStandingMessageBytesMax) {
        is_announced_ = true;
        streams_.send->announce(operation_->spec_.fingerprint);
      }
      return false;
    }
  }
  return true;
}

StepWait LaneRun::find_wait(const StepCode& step) const {
  if (!are_done(step)) return StepWait::Dependence;
  if (step.receives) {
    if (!streams_.recv->is_owned_by(this)) return StepWait::ReceiveTurn;
    if (!streams_.recv->has_message()) return StepWait::Message;
  }
  if (step.sends) {
    if (!streams_.send->is_owned_by(this)) return StepWait::SendTurn;
    if (!streams_.send->has_credit(message_bytes(step))) return StepWait::Credit;
  }
  return StepWait::Capture;
}

StepPlace LaneRun::place(const StepCode& step) const {
  const size_t instances = static_cast<size_t>(operation_->spec_.shape.instances);
  const size_t index = static_cast<size_t>(this - operation_->lanes_.data());
  return {.sequence = operation_->spec_.sequence,
          .code = code_,
          .lane = static_cast<int>(index / instances),
          .instance = instance_,
          .iteration = iteration_,
          .step = step_,
          .message_bytes = message_bytes(step)};
}

bool LaneRun::are_done(const StepCode& step) const {
  const int instances = operation_->spec_.shape.instances;
  for (const StepCode::Dependence& on : step.dependences) {
    const LaneRun& lane = operation_->lanes_[static_cast<size_t>(on.lane * instances + instance_)];
    const bool is_done =
        lane.iteration_ > iteration_ || (lane.iteration_ == iteration_ && lane.step_ > on.step);
    if (!is_done) return false;
  }
  return true;
}

bool LaneRun::are_captured(const StepCode& step) {
  const int instances = operation_->spec_.shape.instances;
  for (const StepCode::CaptureWait& wait : step.capture_waits) {
    LaneRun& lane = operation_->lanes_[static_cast<size_t>(wait.lane * instances + instance_)];
    const int64_t index =
        int64_t{iteration_} * lane.code_->sends_per_iteration + wait.send_index + 1;
    // Not even sent: what comes before this step by way of its own message, which wakes the lane.
    if (lane.sent_count_ < index) return false;
    const uint32_t position = lane.first_position_ + static_cast<uint32_t>(index);
    if (lane.streams_.send->is_captured(position)) continue;
    lane.streams_.send->watch_capture(position, this);
    return false;
  }
  return true;
}

// A plain receive may let the bytes come straight to their place: everything that reads or writes
// the place before this step is done or is proven by the message's own arrival.
void LaneRun::offer_target(const StepCode& step) {
  if (step.opcode != Opcode::Recv && step.opcode != Opcode::RecvCopySend) return;
  if (streams_.recv->has_target()) return;
  const size_t bytes = message_bytes(step);
  if (bytes <= kSmallMessageBytesMax) return;  // arrives with its header in one read anyway
  pieces_.clear();
  append_pieces(step, step.destinations[0]);
  streams_.recv->post_target(pieces_, bytes);
}

void LaneRun::execute(const StepCode& step) {
  pieces_.clear();
  InMessage message;
  if (step.receives) {
    ++received_count_;
    message = streams_.recv->take(receives_left() > 0);
    if (message.bytes != message_bytes(step)) {
      operation_->queue_.on_wrong_message(*operation_, *streams_.recv, message,
                                          message_bytes(step));
      return;
    }
    consume(step, message);
  } else {
    append_pieces(step, step.sources[0]);
  }
  if (!step.sends) return;
  SendStream& stream = *streams_.send;
  if (sent_count_++ == 0) first_position_ = stream.position();
  stream.post(pieces_, operation_->spec_.fingerprint, std::move(message.buffer));
}

void LaneRun::consume(const StepCode& step, InMessage& message) {
  const OperationSpec& spec = operation_->spec_;
  const bool keeps = !step.destinations.empty();
  const bool reduces = !step.sources.empty();
  std::byte* arrived = message.buffer.data();
  for (int chunk = 0; chunk < step.chunk_count; ++chunk) {
    const Piece place = piece(step, keeps ? step.destinations[0] : step.sources[0], chunk);
    const size_t bytes = static_cast<size_t>(place.elements) * operation_->element_bytes_;
    if (bytes > 0) {
      if (reduces) {
        const Piece local = piece(step, step.sources[0], chunk);
        operation_->device_.reduce(spec.dtype, spec.op, keeps ? place.data : arrived, arrived,
                                   local.data, static_cast<size_t>(place.elements));
      } else if (!message.is_in_target) {
        std::memcpy(place.data, arrived, bytes);
      }
    }
    if (step.sends && bytes > 0) pieces_.push_back({keeps ? place.data : arrived, bytes});
    if (!message.is_in_target) arrived += bytes;
  }
  // Kept values are sent from their place; the message's memory travels only when nobody keeps it.
  if (keeps) message.buffer = PooledBuffer();
}

void LaneRun::execute_local(const StepCode& step) {
  const OperationSpec& spec = operation_->spec_;
  const Device& device = operation_->device_;
  for (int chunk = 0; chunk < step.chunk_count; ++chunk) {
    const Piece to = piece(step, step.destinations[0], chunk);
    if (to.elements == 0) continue;
    const size_t elements = static_cast<size_t>(to.elements);
    if (step.opcode == Opcode::Copy) {
      const Piece from = piece(step, step.sources[0], chunk);
      if (from.data != to.data)
        std::memcpy(to.data, from.data, elements * operation_->element_bytes_);
    } else if (step.opcode == Opcode::Reduce) {
      const Piece from = piece(step, step.sources[0], chunk);
      device.reduce(spec.dtype, spec.op, to.data, to.data, from.data, elements);
    } else {
      MCCL_CHECK(step.opcode == Opcode::Fold);
      std::vector<void*> destinations;
      std::vector<const void*> sources;
      destinations.reserve(step.destinations.size());
      sources.reserve(step.sources.size());
      for (const Operand& operand : step.destinations)
        destinations.push_back(piece(step, operand, chunk).data);
      for (const Operand& operand : step.sources)
        sources.push_back(piece(step, operand, chunk).data);
      device.fold(spec.dtype, spec.op, destinations, sources, elements);
    }
  }
}

void LaneRun::finish_step(const StepCode& step) {
  const bool is_last_iteration = iteration_ + 1 == iterations_;
  const int done = step_;
  step_bytes_ = kUnknownBytes;
  if (++step_ == static_cast<int>(code_->steps.size())) {
    step_ = 0;
    if (++iteration_ == iterations_) state_ = State::Draining;
  }
  // Each end is handed on after its own last use (law L2).
  if (is_last_iteration && done == code_->last_send_step) streams_.send->pass_on();
  if (is_last_iteration && done == code_->last_recv_step) streams_.recv->pass_on();
  const int instances = operation_->spec_.shape.instances;
  for (int dependent : step.dependents)
    operation_->lanes_[static_cast<size_t>(dependent * instances + instance_)].wake();
}

void LaneRun::drain() {
  if (sent_count_ > 0) {
    const uint32_t last = first_position_ + static_cast<uint32_t>(sent_count_);
    if (!streams_.send->is_captured(last)) {
      streams_.send->watch_capture(last, this);
      return;
    }
  }
  state_ = State::Finished;
  operation_->on_lane_finished();
}

LaneRun::Slice LaneRun::slice() const {
  const CallShape& shape = operation_->spec_.shape;
  if (!shape.is_cut_by_lane)
    return {(int64_t{iteration_} * shape.instances + instance_) * shape.slice_elements,
            shape.slice_elements};
  const int64_t first = operation_->first_slice_elements();
  if (iteration_ == 0) return {0, first};
  return {first + (iteration_ - 1) * shape.slice_elements, shape.slice_elements};
}

LaneRun::Piece LaneRun::piece(const StepCode& step, const Operand& operand, int chunk) const {
  const OperationSpec& spec = operation_->spec_;
  const Origin& origin = step.origins[static_cast<size_t>(chunk)];
  const auto [begin, elements_max] = slice();
  const int64_t length = operation_->geometry(origin.block).length(origin.chunk);
  const int64_t elements = std::clamp<int64_t>(length - begin, 0, elements_max);
  if (elements == 0) return {nullptr, 0};
  const int index = operand.index + chunk;
  const std::byte* base = nullptr;
  int64_t first = 0;
  if (operand.buffer == Buffer::Scratch) {
    base = operation_->scratch_.data();
    first = index * operation_->scratch_chunk_elements_;
  } else {
    const bool is_input = operand.buffer == Buffer::Input;
    const std::vector<Block>& blocks = is_input ? spec.buffers.input : spec.buffers.output;
    int block = 0;
    int chunk_of_block = index;
    if (blocks.size() > 1) {
      const int chunks = spec.code->program->program().chunk_count;
      block = index / chunks;
      chunk_of_block = index % chunks;
    }
    base = blocks[static_cast<size_t>(block)].data;
    const size_t geometry =
        static_cast<size_t>(block) + (is_input ? spec.buffers.output.size() : 0);
    first = operation_->geometry_[geometry].begin(chunk_of_block);
  }
  const auto offset = static_cast<size_t>(first + begin) * operation_->element_bytes_;
  return {const_cast<std::byte*>(base) + offset, elements};
}

// Asked for by readiness, credit and targets of one step; the sum is made once.
size_t LaneRun::message_bytes(const StepCode& step) const {
  if (step_bytes_ != kUnknownBytes) return step_bytes_;
  const auto [begin, elements_max] = slice();
  int64_t elements = 0;
  for (const Origin& origin : step.origins)
    elements += std::clamp<int64_t>(operation_->geometry(origin.block).length(origin.chunk) - begin,
                                    0, elements_max);
  step_bytes_ = static_cast<size_t>(elements) * operation_->element_bytes_;
  return step_bytes_;
}

void LaneRun::append_pieces(const StepCode& step, const Operand& operand) {
  for (int chunk = 0; chunk < step.chunk_count; ++chunk) {
    const Piece part = piece(step, operand, chunk);
    if (part.elements == 0) continue;
    pieces_.push_back({part.data, static_cast<size_t>(part.elements) * operation_->element_bytes_});
  }
}

int64_t LaneRun::sends_left() const {
  return int64_t{code_->sends_per_iteration} * iterations_ - sent_count_;
}

int64_t LaneRun::receives_left() const {
  return int64_t{code_->receives_per_iteration} * iterations_ - received_count_;
}

const Link* LaneRun::waited_peer() const {
  if (state_ == State::Finished) return nullptr;
  if (state_ == State::Draining) return &streams_.send->link();
  const StepCode& step = code_->steps[static_cast<size_t>(step_)];
  if (step.receives && !(streams_.recv->is_owned_by(this) && streams_.recv->has_message()))
    return &streams_.recv->link();
  if (step.sends &&
      !(streams_.send->is_owned_by(this) && streams_.send->has_credit(message_bytes(step))))
    return &streams_.send->link();
  return nullptr;
}

std::string LaneRun::describe_wait() const {
  if (state_ == State::Draining)
    return "its last bytes to leave for " + streams_.send->peer_name();
  const StepCode& step = code_->steps[static_cast<size_t>(step_)];
  const std::string place = " on channel " + std::to_string(code_->channel) + " (slice " +
                            std::to_string(iteration_) + ", step " + std::to_string(step_) + ")";
  if (step.receives && !(streams_.recv->is_owned_by(this) && streams_.recv->has_message()))
    return "a message from " + streams_.recv->peer_name() + place;
  if (step.sends &&
      !(streams_.send->is_owned_by(this) && streams_.send->has_credit(message_bytes(step))))
    return "credit of " + streams_.send->peer_name() + place;
  return "another lane" + place;
}

}  // namespace mccl
