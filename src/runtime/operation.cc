#include "runtime/operation.h"

#include <algorithm>
#include <utility>

#include "ir/collective.h"
#include "runtime/operation_queue.h"
#include "transport/link.h"

namespace mccl {
namespace {

size_t size_of(const MemoryList& list) {
  return list.blocks.size() + list.ranges.size();
}

AddressRange range_of(const MemoryList& list, size_t index) {
  if (index < list.blocks.size()) {
    const Block& block = list.blocks[index];
    return {block.data, block.data + static_cast<size_t>(block.count) * list.element_bytes};
  }
  const StandIn::Range& range = list.ranges[index - list.blocks.size()];
  const auto* data = static_cast<const std::byte*>(range.data);
  return {data, data + range.bytes};
}

bool overlaps(const MemoryList& left, const MemoryList& right) {
  for (size_t i = 0; i < size_of(left); ++i) {
    const AddressRange range = range_of(left, i);
    for (size_t j = 0; j < size_of(right); ++j)
      if (range.overlaps(range_of(right, j))) return true;
  }
  return false;
}

void extend(AddressRange& extent, const MemoryList& list) {
  for (size_t i = 0; i < size_of(list); ++i) {
    const AddressRange range = range_of(list, i);
    if (range.is_empty()) continue;
    const bool is_first = extent.is_empty();
    extent.begin = is_first ? range.begin : std::min(extent.begin, range.begin);
    extent.end = is_first ? range.end : std::max(extent.end, range.end);
  }
}

}  // namespace

Operation::Operation(OperationSpec spec, RunQueue& run_queue, const Device& device,
                     BufferPool& pool, OperationQueue& queue)
    : spec_(std::move(spec)),
      run_queue_(run_queue),
      device_(device),
      pool_(pool),
      queue_(queue),
      element_bytes_(dtype_bytes(spec_.dtype)) {
  const Program& program = spec_.code->program->program();
  for (const Block& block : spec_.buffers.output)
    geometry_.push_back(ChunkGeometry::of(block.count, program.chunk_count));
  for (const Block& block : spec_.buffers.input)
    geometry_.push_back(ChunkGeometry::of(block.count, program.chunk_count));
  for (const ChunkGeometry& geometry : geometry_)
    scratch_chunk_elements_ = std::max(scratch_chunk_elements_, geometry.chunk_elements);
  const size_t instances = static_cast<size_t>(spec_.shape.instances);
  MCCL_CHECK_EQ(spec_.streams.size(), spec_.code->lanes.size() * instances);
  lanes_.reserve(spec_.streams.size());
  for (size_t lane = 0; lane < spec_.code->lanes.size(); ++lane) {
    const LaneCode& code = spec_.code->lanes[lane];
    const int iterations = count_iterations(code);
    for (size_t instance = 0; instance < instances; ++instance)
      lanes_.emplace_back(*this, code, spec_.streams[lane * instances + instance],
                          static_cast<int>(instance), iterations);
  }
  unfinished_lanes_ = lanes_.size();
  measure_memory();
}

void Operation::measure_memory() {
  extend(written_, writes());
  used_ = written_;
  extend(used_, reads());
}

int64_t Operation::longest_chunk(const LaneCode& code) const {
  int64_t elements = 0;
  for (const StepCode& step : code.steps)
    for (const Origin& origin : step.origins)
      elements = std::max(elements, geometry(origin.block).length(origin.chunk));
  return elements;
}

int64_t Operation::first_slice_elements() const {
  return std::min(spec_.shape.slice_elements,
                  static_cast<int64_t>(kStandingMessageBytesMax / element_bytes_));
}

int Operation::count_iterations(const LaneCode& code) const {
  const CallShape& shape = spec_.shape;
  if (!shape.is_cut_by_lane) return shape.iterations;
  const int64_t first = first_slice_elements();
  const int64_t longest = longest_chunk(code);
  return longest < first ? 1 : static_cast<int>(2 + (longest - first) / shape.slice_elements);
}

void Operation::join_streams() {
  for (LaneRun& lane : lanes_) {
    if (lane.code_->last_send_step >= 0) lane.streams_.send->add_owner(&lane, spec_.sequence);
    if (lane.code_->last_recv_step < 0) continue;
    int64_t slice = spec_.shape.slice_elements;
    // Where one message is expected its length is known; else the peer's second one may be a slice.
    if (spec_.shape.is_cut_by_lane && lane.iterations_ == 1) slice = longest_chunk(*lane.code_);
    const int64_t elements_max = slice * lane.code_->received_chunks_max;
    lane.streams_.recv->add_owner(&lane, spec_.sequence, spec_.shape.messages,
                                  static_cast<size_t>(elements_max) * element_bytes_);
  }
}

void Operation::start() {
  MCCL_CHECK_EQ(blocker_count_, 0);
  queue_.recorder().start(spec_.sequence);
  if (spec_.stand_in != nullptr && spec_.stand_in->copy_in) {
    const Status copied = spec_.stand_in->copy_in();
    if (!copied.is_ok()) return queue_.fail(copied);
  }
  const size_t scratch_bytes = static_cast<size_t>(spec_.code->scratch_chunk_count) *
                               static_cast<size_t>(scratch_chunk_elements_) * element_bytes_;
  if (scratch_bytes > 0) scratch_ = pool_.take(scratch_bytes);
  if (lanes_.empty()) queue_.on_operation_finished(*this);
  for (LaneRun& lane : lanes_) run_queue_.push(lane);
}

void Operation::unblock() {
  MCCL_CHECK(blocker_count_ > 0);
  if (--blocker_count_ == 0) start();
}

void Operation::stop() {
  for (const LaneRun& lane : lanes_) run_queue_.remove(lane);
}

MemoryList Operation::reads() const {
  if (spec_.stand_in != nullptr) return {{}, 1, spec_.stand_in->reads};
  return {spec_.buffers.input, element_bytes_, {}};
}

MemoryList Operation::writes() const {
  if (spec_.stand_in != nullptr) return {{}, 1, spec_.stand_in->writes};
  return {spec_.buffers.output, element_bytes_, {}};
}

bool Operation::conflicts_with(const Operation& other) const {
  if (spec_.waits_for_earlier) return true;
  if (!used_.overlaps(other.written_) && !written_.overlaps(other.used_)) return false;
  return overlaps(writes(), other.writes()) || overlaps(writes(), other.reads()) ||
         overlaps(reads(), other.writes());
}

void Operation::on_lane_finished() {
  MCCL_CHECK(unfinished_lanes_ > 0);
  if (--unfinished_lanes_ > 0) return;
  // After the last capture: nobody reads the sums from this memory any more.
  if (spec_.op == ReduceOp::Avg && is_reducing(spec_.code->program->program().collective))
    for (const Block& block : spec_.buffers.output)
      device_.divide(spec_.dtype, block.data, static_cast<size_t>(block.count), spec_.rank_count);
  scratch_ = PooledBuffer();
  // Before those that wait for this memory start.
  if (spec_.stand_in != nullptr && spec_.stand_in->copy_out) {
    const Status copied = spec_.stand_in->copy_out();
    if (!copied.is_ok()) queue_.fail(copied);
  }
  queue_.on_operation_finished(*this);
}

std::vector<uint64_t> Operation::waited_peers() const {
  std::vector<uint64_t> processes;
  if (!is_admitted()) return processes;
  for (const LaneRun& lane : lanes_) {
    const Link* link = lane.waited_peer();
    if (link != nullptr) processes.push_back(link->peer_process());
  }
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  return processes;
}

std::string Operation::describe_waits(size_t count_max) const {
  if (awaits_device_)
    return "the kernels of this rank's device that write its memory (ticket " +
           std::to_string(spec_.device->ticket()) + ")";
  if (!is_admitted()) return "an earlier operation on the same memory";
  std::string text;
  size_t count = 0;
  for (const LaneRun& lane : lanes_) {
    if (lane.is_finished()) continue;
    if (count == count_max) return text + ", ...";
    if (count > 0) text += ", ";
    text += lane.describe_wait();
    ++count;
  }
  return text;
}

}  // namespace mccl
