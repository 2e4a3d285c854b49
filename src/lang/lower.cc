// The driver of the passes. Fusion and one channel for all are hopes: joining a receive with a send
// couples two streams, and some programs then cannot go on with two messages per stream, or cannot
// keep their messages in order. The schedule finds that out by running the program. What was in the
// way is then pulled apart (another channel, or an unfused step) and the passes run again.
//
// The last resort always works: unfused nodes in statement order. There a message is taken right
// behind being given, so that no stream ever holds more than one.
#include "lang/lower.h"

#include <algorithm>
#include <numeric>

#include "lang/channels.h"
#include "lang/check.h"
#include "lang/chunk_dag.h"
#include "lang/early_waits.h"
#include "lang/fuse.h"
#include "lang/instances.h"
#include "lang/lanes.h"
#include "lang/message_groups.h"
#include "lang/schedule.h"

namespace mccl::lang {
namespace {

constexpr int kAttemptsMax = 24;
constexpr int kChannelAttemptsMax = 8;  // of these, the first so many may move messages

Status refuse(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += (text.empty() ? "" : "\n") + fault;
  return Status(StatusCode::InvalidArgument, text);
}

// Everything that emission needs.
struct Attempt {
  StepGraph graph;
  ChannelPlan channels;
  Indexed<int> order;
};

class Lowering {
 public:
  Lowering(const Recording& recording, StepGraph base, StepLines& lines)
      : recording_(recording), base_(std::move(base)), lines_(lines) {
    limits_.is_reduce_apart.assign(base_.messages.size(), 0);
    limits_.is_forward_apart.assign(base_.messages.size(), 0);
    limits_.channel_min.assign(base_.messages.size(), 0);
  }

  Result<Program> run() {
    std::vector<std::string> faults;
    const MessageGroups groups(recording_, base_, faults);
    if (!faults.empty()) return refuse(faults);
    Attempt attempt;
    for (int number = 0; number < kAttemptsMax && !is_hopeless_; ++number)
      if (try_lower(groups, number, attempt)) return emit(attempt);
    FusionLimits no_limits = limits_;
    no_limits.channel_min.assign(base_.messages.size(), 0);
    attempt.graph = base_;
    attempt.channels = assign_channels(recording_, base_, groups, no_limits);
    if (!attempt.channels.faults.empty()) return refuse(attempt.channels.faults);
    attempt.order.resize(base_.nodes.size());
    std::iota(attempt.order.begin(), attempt.order.end(), 0);
    return emit(attempt);
  }

 private:
  bool try_lower(MessageGroups groups, int number, Attempt& attempt) {
    attempt.graph =
        recording_.is_fusion_on ? fuse(base_, recording_.shape, limits_, groups) : base_;
    attempt.channels = assign_channels(recording_, attempt.graph, groups, limits_);
    for (const int message : attempt.channels.too_fused) limits_.is_forward_apart[message] = 1;
    is_hopeless_ = attempt.channels.too_fused.empty() && !attempt.channels.faults.empty();
    if (!attempt.channels.too_fused.empty() || is_hopeless_) return false;
    const ChunkDag dag(attempt.graph, recording_.shape);
    Schedule found = schedule(attempt.graph, dag, attempt.channels);
    attempt.order = std::move(found.order);
    if (found.is_complete()) return true;
    // A full stream first: what stands behind it is often only queued.
    bool is_changed = split_streams(attempt.graph, attempt.channels, found.blocked_by_credit);
    if (!is_changed && number < kChannelAttemptsMax)
      is_changed = move_messages(attempt, groups, found.blocked_by_order);
    if (!is_changed) {
      is_changed = split(attempt.graph, found.blocked_by_order);
      is_changed = split(attempt.graph, found.in_front) || is_changed;
    }
    is_hopeless_ = !is_changed && !move_messages(attempt, groups, found.in_front);
    return false;
  }

  // Their messages start the search for a channel behind the one they had.
  bool move_messages(const Attempt& attempt, const MessageGroups& groups,
                     const std::vector<int>& receivers) {
    bool is_changed = false;
    for (const int node : receivers) {
      const int message = attempt.graph.nodes[node].recv_message;
      const int next = attempt.channels.channel[message] + 1;
      if (groups.channel(message) >= 0 || next > kChannelMax) continue;
      limits_.channel_min[message] = next;
      is_changed = true;
    }
    return is_changed;
  }

  bool split(const StepGraph& graph, const std::vector<int>& nodes) {
    bool is_changed = false;
    for (const int index : nodes) {
      const Node& node = graph.nodes[index];
      if (node.is_forwarding()) limits_.is_forward_apart[node.recv_message] = 1;
      if (node.is_merged) limits_.is_reduce_apart[node.recv_message] = 1;
      is_changed = is_changed || node.is_forwarding() || node.is_merged;
    }
    return is_changed;
  }

  // Splits all forwarding nodes that send on a stream on which one of `nodes` waits.
  bool split_streams(const StepGraph& graph, const ChannelPlan& channels,
                     const std::vector<int>& nodes) {
    const auto name = [&](int message) {
      const Message& data = graph.messages[message];
      return end_name(data.sender, true, data.receiver, channels.channel[message]);
    };
    std::unordered_map<uint64_t, bool> is_full;
    for (const int node : nodes) is_full[name(graph.nodes[node].send_message)] = true;
    bool is_changed = false;
    for (const Node& node : graph.nodes) {
      if (!node.is_forwarding() || is_full.count(name(node.send_message)) == 0) continue;
      limits_.is_forward_apart[node.recv_message] = 1;
      is_changed = true;
    }
    return is_changed;
  }

  Result<Program> emit(const Attempt& attempt) {
    const StepGraph& graph = attempt.graph;
    const ChunkDag dag(graph, recording_.shape);
    Program program = recording_.shape;
    const LanePlan plan =
        plan_lanes(graph, dag, attempt.channels, attempt.order, program.rank_count());
    auto dependences = minimal_dependences(graph, dag, plan);
    lines_.assign(program.ranks.size(), {});
    for (int rank = 0; rank < program.rank_count(); ++rank) {
      RankProgram& lowered = program.ranks[static_cast<size_t>(rank)];
      lowered.scratch_chunk_count = 0;
      for (const PlannedLane& planned : plan.ranks[rank]) {
        Lane lane{planned.send_peer, planned.recv_peer, planned.channel, {}};
        auto& lane_lines = lines_[static_cast<size_t>(rank)].emplace_back();
        for (const int index : planned.nodes) {
          lane.steps.push_back(make_step(graph, graph.nodes[index]));
          lane.steps.back().dependences = std::move(dependences[index]);
          count_scratch(lane.steps.back(), lowered.scratch_chunk_count);
          lane_lines.push_back(recording_.statements[graph.nodes[index].statement].line);
        }
        lowered.lanes.push_back(std::move(lane));
      }
    }
    return program;
  }

  static Step make_step(const StepGraph& graph, const Node& node) {
    Step step;
    step.opcode = node.opcode;
    for (int index = 0; index < node.source_count; ++index)
      step.sources.push_back(graph.source(node, index));
    for (int index = 0; index < node.destination_count; ++index)
      step.destinations.push_back(graph.destination(node, index));
    return step;
  }

  // Scratch that fusion made needless is not allocated.
  static void count_scratch(const Step& step, int& chunk_count) {
    for (const auto* spans : {&step.sources, &step.destinations})
      for (const Span& span : *spans)
        if (span.buffer == Buffer::Scratch)
          chunk_count = std::max(chunk_count, span.index + span.count);
  }

  const Recording& recording_;
  StepGraph base_;
  StepLines& lines_;
  FusionLimits limits_;
  bool is_hopeless_ = false;  // another attempt would be the same
};

int64_t longest_buffer(const Program& shape) {
  int64_t chunk_count = 0;
  for (int rank = 0; rank < shape.rank_count(); ++rank)
    for (const Buffer buffer : {Buffer::Input, Buffer::Output})
      chunk_count = std::max<int64_t>(chunk_count, buffer_chunk_count(shape, rank, buffer));
  return chunk_count;
}

}  // namespace

Result<Program> lower(Recording& recording, StepLines& lines) {
  std::vector<std::string> faults = check(recording);
  const int instances = recording.instance_count;
  const int64_t chunk_count = longest_buffer(recording.shape) * instances;
  if (chunk_count > kChunksMax)
    faults.push_back(recording.shape.name + ": " + std::to_string(instances) + " instances need " +
                     std::to_string(chunk_count) + " chunks in a buffer, more than " +
                     std::to_string(kChunksMax));
  if (!faults.empty()) return refuse(faults);
  const bool is_alone = instances == 1;
  const Recording first = is_alone ? Recording{} : first_instance(recording);
  const Recording& lowered = is_alone ? recording : first;
  Result<Program> result = Lowering(lowered, expand(lowered), lines).run();
  if (!result.is_ok()) return result;
  if (recording.has_early_waits) hoist_waits(result.value());
  if (!is_alone)
    MCCL_RETURN_IF_ERROR(add_instances(recording, first.layout, result.value(), lines));
  return result;
}

}  // namespace mccl::lang
