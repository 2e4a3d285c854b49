// T = max(1, floor(chunk / W)), m = ceil(chunk / (T * slice)), then slice = ceil(chunk / (T * m)):
// all slices of a chunk are equal, because a short tail would pay every hop's alpha once more.
//
// A window of one slice needs no second instance: such programs (all-pairs among many ranks) keep
// the wire full with their many streams, and a second instance would only double what parks. Tests:
// call_plan_test.cc; evidence for the formula: the law's note in docs.
#include "planner/call_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "ir/opcode.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

int64_t round_up(int64_t bytes, int64_t unit) {
  return divide_up_bytes(bytes, unit) * unit;
}
int64_t round_down(int64_t bytes, int64_t unit) {
  return bytes / unit * unit;
}

// How many bytes of one stream's messages may be in the air, over all instances.
int64_t stream_bytes_max(const PlanEntry& entry, const ProgramShape& shape, int64_t park_limit) {
  const WideInteger owners = WideInteger{kMessagesOwnedPerStream} * entry.channel_sets *
                             std::max(shape.recv_stream_count, 1) * shape.message_chunk_count;
  return saturate(park_limit / owners);
}

// All spans of a step have the same number of chunks.
int message_chunk_count(const Step& step) {
  const OpcodeRow& row = opcode_row(step.opcode);
  if (!row.receives && !row.sends) return 0;
  const auto& spans = step.sources.empty() ? step.destinations : step.sources;
  return spans.empty() ? 0 : spans.front().count;
}

Status too_little_parking(const PlanEntry& entry, const ProgramShape& shape, int64_t slice_bytes,
                          int64_t park_limit) {
  const int64_t needed =
      saturate(WideInteger{kMessagesOwnedPerStream} * entry.channel_sets *
               std::max(shape.recv_stream_count, 1) * shape.message_chunk_count * slice_bytes);
  return {StatusCode::Unsupported,
          fmt::format("{} needs {} bytes of parking ({} streams, {} sets, {} messages of {} x {} "
                      "bytes each), MCCL_PARK_LIMIT is {}; set it to {} or more",
                      entry.algorithm, needed, shape.recv_stream_count, entry.channel_sets,
                      kMessagesOwnedPerStream, shape.message_chunk_count, slice_bytes, park_limit,
                      needed)};
}

bool is_direct_step(const Lane& lane, const Step& step) {
  if (!step.dependences.empty() || (lane.send_peer >= 0 && lane.recv_peer >= 0)) return false;
  if (step.opcode == Opcode::Send) return step.sources[0].buffer == Buffer::Input;
  if (step.opcode == Opcode::Recv) return step.destinations[0].buffer == Buffer::Output;
  return step.opcode == Opcode::Copy && lane.send_peer < 0 && lane.recv_peer < 0 &&
         step.sources[0].buffer == Buffer::Input && step.destinations[0].buffer == Buffer::Output;
}

}  // namespace

ProgramShape measure_shape(const Program& program) {
  ProgramShape shape{.chunk_count = program.chunk_count, .is_direct = true};
  for (const RankProgram& rank : program.ranks) {
    std::set<std::pair<int, int>> streams;
    for (const Lane& lane : rank.lanes) {
      if (lane.recv_peer >= 0) streams.emplace(lane.recv_peer, lane.channel);
      for (const Step& step : lane.steps) {
        shape.message_chunk_count = std::max(shape.message_chunk_count, message_chunk_count(step));
        shape.is_direct = shape.is_direct && is_direct_step(lane, step);
      }
    }
    shape.recv_stream_count = std::max(shape.recv_stream_count, static_cast<int>(streams.size()));
  }
  return shape;
}

Result<CallPlan> plan_call(const PlanEntry& entry, const ProgramShape& shape,
                           int64_t block_element_count, int64_t element_bytes,
                           int64_t park_limit_bytes) {
  MCCL_CHECK_LE(0, block_element_count);
  MCCL_CHECK_LT(0, element_bytes);
  MCCL_CHECK_EQ(kCacheLineBytes % element_bytes, 0);
  MCCL_CHECK_EQ(entry.slice_bytes % kCacheLineBytes, 0);
  const int64_t chunk_bytes = saturate(
      WideInteger{divide_up_bytes(block_element_count, shape.chunk_count)} * element_bytes);
  CallPlan plan{.slice_bytes = kCacheLineBytes};
  if (chunk_bytes == 0) return plan;

  const int64_t air_bytes =
      round_down(stream_bytes_max(entry, shape, park_limit_bytes), kCacheLineBytes);
  const int64_t least_slice = std::min(kSliceBytesMin, round_up(chunk_bytes, kCacheLineBytes));
  if (air_bytes < least_slice)
    return too_little_parking(entry, shape, least_slice, park_limit_bytes);

  const int64_t slice_max = std::min(entry.slice_bytes, air_bytes);
  plan.is_park_limited = slice_max < std::min(entry.slice_bytes, chunk_bytes);
  if (entry.window_bytes <= slice_max) {
    plan.iteration_count = divide_up_bytes(chunk_bytes, slice_max);
  } else {
    plan.iteration_count = std::max<int64_t>(1, chunk_bytes / entry.window_bytes);
    plan.instance_count =
        saturate(divide_up(chunk_bytes, WideInteger{plan.iteration_count} * slice_max));
  }
  const int64_t instance_max = std::min(kInstanceCountMax, air_bytes / slice_max);
  if (plan.instance_count > instance_max) {
    plan.is_park_limited = plan.is_park_limited || instance_max < kInstanceCountMax;
    plan.instance_count = instance_max;
    plan.iteration_count = saturate(divide_up(chunk_bytes, WideInteger{instance_max} * slice_max));
  }
  const int64_t slice_count = plan.iteration_count * plan.instance_count;
  plan.slice_bytes = round_up(divide_up_bytes(chunk_bytes, slice_count), kCacheLineBytes);
  return plan;
}

Result<CallPlan> plan_direct_call(const PlanEntry& entry, const ProgramShape& shape,
                                  int64_t park_limit_bytes) {
  MCCL_CHECK(shape.is_direct);
  const int64_t air_bytes =
      round_down(stream_bytes_max(entry, shape, park_limit_bytes), kCacheLineBytes);
  if (air_bytes < kSliceBytesMin)
    return too_little_parking(entry, shape, kSliceBytesMin, park_limit_bytes);
  CallPlan plan{.slice_bytes = std::min(entry.slice_bytes, air_bytes), .is_cut_by_lane = true};
  plan.is_park_limited = plan.slice_bytes < entry.slice_bytes;
  return plan;
}

}  // namespace mccl
