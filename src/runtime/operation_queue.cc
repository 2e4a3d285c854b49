#include "runtime/operation_queue.h"

#include <algorithm>
#include <utility>

#include "transport/link.h"

namespace mccl {
namespace {

// Calls that a peer may be ahead of us with two standing messages per stream; more is a lost rank.
constexpr size_t kFutureHeadsMax = 4096;

// A peer that was asked to compare calls answers in a round trip.
constexpr TimeNs kDoubtNs = kNsPerSecond;

std::string seconds_text(TimeNs time) {
  const int64_t tenths = time / (100 * kNsPerMs);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string describe(const Operation& operation) {
  return "operation " + std::to_string(operation.sequence()) + " (" +
         operation.spec().code->program->program().name + ")";
}

bool is_in_place(const CallBuffers& buffers) {
  if (buffers.input.empty() || buffers.output.empty()) return false;
  // One of the two has one block: where there are several, it is one of them.
  const bool has_one_input = buffers.input.size() == 1;
  const Block& one = has_one_input ? buffers.input.front() : buffers.output.front();
  for (const Block& block : has_one_input ? buffers.output : buffers.input)
    if (block.count > 0 && block.data == one.data) return true;
  return false;
}

OperationRecord record_of(const OperationSpec& spec) {
  OperationRecord record;
  record.sequence = spec.sequence;
  record.bytes = spec.bytes;
  record.posted_at = spec.posted_at;
  record.is_staged = spec.stand_in != nullptr;
  record.has_device = spec.device != nullptr;
  record.fingerprint = spec.fingerprint;
  record.plan = spec.plan;
  record.is_in_place = is_in_place(spec.buffers);
  return record;
}

}  // namespace

OperationQueue::OperationQueue(RunQueue& run_queue, const Device& device, BufferPool& pool,
                               FlightRecorder& recorder, Words words)
    : run_queue_(run_queue),
      device_(device),
      pool_(pool),
      recorder_(recorder),
      words_(std::move(words)) {}

OperationQueue::~OperationQueue() {
  for (const std::unique_ptr<Operation>& operation : operations_) operation->stop();
}

void OperationQueue::post(OperationSpec spec) {
  MCCL_CHECK(!has_failed());
  MCCL_CHECK_EQ(spec.sequence, next_sequence_);
  ++next_sequence_;
  posted_at_ = spec.posted_at;
  recorder_.post(record_of(spec));
  const auto head = future_heads_.find(spec.sequence);
  if (head != future_heads_.end()) {
    if (head->second.fingerprint != spec.fingerprint)
      fail(words_.mismatch(spec.sequence, {spec.fingerprint}, head->second));
    future_heads_.erase(head);
  }
  next_deadline_ = std::min(next_deadline_, spec.deadline);
  auto operation = std::make_unique<Operation>(std::move(spec), run_queue_, device_, pool_, *this);
  for (const std::unique_ptr<Operation>& earlier : operations_) {
    if (!operation->conflicts_with(*earlier)) continue;
    ++operation->blocker_count_;
    earlier->dependents_.push_back(operation.get());
  }
  has_seen_devices_ |= operation->spec_.device != nullptr;
  if (operation->spec_.device != nullptr && !operation->spec_.device->is_produced()) {
    operation->awaits_device_ = true;
    ++operation->blocker_count_;
    ++awaiting_device_count_;
    recorder_.set_state(operation->sequence(), CallState::WaitsForDevice);
  } else if (!operation->is_admitted()) {
    recorder_.set_state(operation->sequence(), CallState::WaitsForMemory);
  }
  operation->join_streams();
  Operation& posted = *operation;
  operations_.push_back(std::move(operation));
  if (posted.is_admitted()) posted.start();
}

void OperationQueue::start_produced() {
  if (awaiting_device_count_ == 0) return;
  std::vector<Operation*> produced;  // starting one may end it
  for (const std::unique_ptr<Operation>& operation : operations_)
    if (operation->awaits_device_ && operation->spec_.device->is_produced())
      produced.push_back(operation.get());
  awaiting_device_count_ -= produced.size();
  for (Operation* operation : produced) {
    operation->awaits_device_ = false;
    recorder_.set_state(operation->sequence(), CallState::WaitsForMemory);  // unless it starts now
    operation->unblock();
  }
}

void OperationQueue::on_message_head(uint64_t sequence, const Fingerprint& fingerprint,
                                     uint64_t peer_process) {
  if (sequence >= next_sequence_) {
    if (future_heads_.size() >= kFutureHeadsMax) {
      fail(Status(StatusCode::Mismatch,
                  "a peer is more than " + std::to_string(kFutureHeadsMax) + " calls ahead"));
      return;
    }
    const auto [head, is_new] =
        future_heads_.try_emplace(sequence, CallHead{fingerprint, peer_process});
    if (!is_new && head->second.fingerprint != fingerprint)
      fail(words_.mismatch(sequence, head->second, {fingerprint, peer_process}));
    return;
  }
  const Fingerprint* local = recorder_.find_fingerprint(sequence);
  if (local != nullptr && *local != fingerprint)
    fail(words_.mismatch(sequence, {*local}, {fingerprint, peer_process}));
}

void OperationQueue::on_operation_finished(Operation& operation) {
  const auto found =
      std::find_if(operations_.begin(), operations_.end(),
                   [&](const std::unique_ptr<Operation>& one) { return one.get() == &operation; });
  MCCL_CHECK(found != operations_.end());
  finished_.push_back(std::move(*found));
  operations_.erase(found);
  ++completed_count_;
  recorder_.end(operation.sequence(), CallState::Complete);
  for (Operation* dependent : operation.dependents_) dependent->unblock();
  if (operation.spec_.sink != nullptr) operation.spec_.sink->on_complete(failure_);
}

void OperationQueue::on_foreign_message(const Operation& operation, const RecvStream& stream) {
  if (!doubt_.is_ok()) return;
  doubt_ =
      Status(StatusCode::Mismatch,
             describe(operation) + ": " + stream.peer_name() + " sent a message of operation " +
                 std::to_string(stream.next().sequence) + "; the ranks run different programs");
  if (words_.ask)
    words_.ask(operation.sequence(), operation.spec().fingerprint, stream.link().peer_process());
}

TimeNs OperationQueue::expire_doubt(TimeNs now) {
  if (doubt_.is_ok()) return kNever;
  if (doubt_since_ == kNever) doubt_since_ = now;
  if (now < doubt_since_ + kDoubtNs) return doubt_since_ + kDoubtNs;
  fail(doubt_);
  return kNever;
}

// The fingerprints were equal, so it is a length that only the two ends know, or a bug.
void OperationQueue::on_wrong_message(const Operation& operation, const RecvStream& stream,
                                      const InMessage& message, size_t expected_bytes) {
  fail(Status(StatusCode::Mismatch,
              describe(operation) + ": " + stream.peer_name() + " sent " +
                  std::to_string(message.bytes) + " bytes where this rank expects " +
                  std::to_string(expected_bytes) + "; the two ranks name different counts"));
}

void OperationQueue::on_unwanted_message(const Operation& operation, const SendStream& stream,
                                         size_t bytes) {
  fail(Status(StatusCode::Mismatch, describe(operation) + ": this rank sends " +
                                        std::to_string(bytes) + " bytes to " + stream.peer_name() +
                                        ", which expects shorter messages; the two ranks name " +
                                        "different counts or types"));
}

void OperationQueue::fail(const Status& status) {
  if (has_failed()) return;
  failure_ = status;
  needs_settling_ = true;
}

void OperationQueue::settle() {
  needs_settling_ = false;
  next_deadline_ = kNever;
  awaiting_device_count_ = 0;
  std::vector<std::unique_ptr<Operation>> failed;
  failed.swap(operations_);
  for (const std::unique_ptr<Operation>& operation : failed) {
    operation->stop();
    recorder_.end(operation->sequence(), CallState::Failed);
    if (operation->spec_.sink != nullptr) operation->spec_.sink->on_complete(failure_);
  }
}

TimeNs OperationQueue::expire_device_wait(TimeNs now) {
  if (!has_seen_devices_ || device_wait_limit_ns_ == 0) return kNever;
  // A stream stands at the first wait that it came to.
  const Operation* waited = nullptr;
  uint64_t first_wait = 0;
  for (const std::unique_ptr<Operation>& operation : operations_) {
    const DeviceCall* device = operation->spec_.device.get();
    if (device == nullptr || !device->is_produced()) continue;
    const uint64_t wait = device->stream_wait();
    if (wait == 0 || (waited != nullptr && wait > first_wait)) continue;
    waited = operation.get();
    first_wait = wait;
  }
  if (waited == nullptr) {
    device_wait_since_ = kNever;
    return kNever;
  }
  if (device_wait_since_ == kNever || device_wait_ != first_wait) {
    device_wait_since_ = now;
    device_wait_ = first_wait;
  }
  const TimeNs due = device_wait_since_ + device_wait_limit_ns_;
  if (due > now) return due;
  fail(
      Status(StatusCode::Timeout,
             describe(*waited) + " Timed out: this rank's device has waited for it for " +
                 std::to_string(device_wait_limit_ns_ / kNsPerMs) +
                 " ms, the longest that it may (MCCL_DEVICE_WAIT; 0 lets the host wait instead); " +
                 "the operation waits for " + waited->describe_waits(4)));
  return kNever;
}

TimeNs OperationQueue::expire(TimeNs now) {
  const TimeNs device_due = std::min(expire_device_wait(now), expire_doubt(now));
  if (now < next_deadline_) return std::min(next_deadline_, device_due);
  next_deadline_ = kNever;
  for (const std::unique_ptr<Operation>& operation : operations_) {
    const TimeNs deadline = operation->spec_.deadline;
    if (deadline > now) {
      next_deadline_ = std::min(next_deadline_, deadline);
      continue;
    }
    const std::string holdups = words_.holdups ? words_.holdups() : std::string();
    fail(Status(StatusCode::Timeout, describe(*operation) + " Timed out after " +
                                         seconds_text(now - operation->spec_.posted_at) + ": " +
                                         (holdups.empty() ? "" : holdups + "; ") + "waiting for " +
                                         operation->describe_waits(4)));
    break;  // the first error is the group's
  }
  return std::min(next_deadline_, device_due);
}

std::vector<OperationWait> OperationQueue::waits() const {
  if (operations_.empty()) return last_waits_;
  std::vector<OperationWait> waits;
  for (const std::unique_ptr<Operation>& operation : operations_) {
    if (waits.size() == kWaitsMax) break;
    waits.push_back(
        {operation->sequence(), operation->describe_waits(4), operation->waited_peers()});
  }
  return waits;
}

bool OperationQueue::needs_link(const Link& link) const {
  std::map<const RecvStream*, int64_t> receives_left;
  for (const std::unique_ptr<Operation>& operation : operations_)
    for (const LaneRun& lane : operation->lanes()) {
      const LaneStreams& streams = lane.streams();
      if (streams.send != nullptr && &streams.send->link() == &link && lane.sends_left() > 0)
        return true;
      if (streams.recv != nullptr && &streams.recv->link() == &link)
        receives_left[streams.recv] += lane.receives_left();
    }
  for (const auto& [stream, count] : receives_left)
    if (count > static_cast<int64_t>(stream->parked_count())) return true;
  return false;
}

}  // namespace mccl
