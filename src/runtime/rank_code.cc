#include "runtime/rank_code.h"

#include <algorithm>

#include "base/check.h"
#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl {
namespace {

// The number of a block among those that the rank has itself: its length is known here.
int own_block(const Program& program, int rank, int origin) {
  int number = 0;
  for (const Buffer buffer : {Buffer::Output, Buffer::Input}) {
    const int blocks = block_count(program, buffer, rank);
    for (int block = 0; block < blocks; ++block, ++number)
      if (origin_block(program, buffer, rank, block) == origin) return number;
  }
  return 0;
}

StepCode make_step(const Program& program, int rank, const Step& step, const StepProof& proof) {
  const OpcodeRow& row = opcode_row(step.opcode);
  StepCode code;
  code.opcode = step.opcode;
  code.receives = row.receives;
  code.sends = row.sends;
  code.origins = proof.origins;
  for (Origin& origin : code.origins) origin.block = own_block(program, rank, origin.block);
  code.chunk_count = static_cast<int>(proof.origins.size());
  for (const Span& span : step.sources) code.sources.push_back({span.buffer, span.index});
  for (const Span& span : step.destinations) code.destinations.push_back({span.buffer, span.index});
  for (const StepRef& ref : step.dependences) code.dependences.push_back({ref.lane, ref.step});
  for (const StepRef& ref : proof.capture_waits) {
    const Lane& lane =
        program.ranks[static_cast<size_t>(rank)].lanes[static_cast<size_t>(ref.lane)];
    const auto sends_before =
        std::count_if(lane.steps.begin(), lane.steps.begin() + ref.step,
                      [](const Step& earlier) { return opcode_row(earlier.opcode).sends; });
    code.capture_waits.push_back({ref.lane, static_cast<int>(sends_before)});
  }
  return code;
}

LaneCode make_lane(const ProvenProgram& proven, int rank, int lane_index) {
  const Program& program = proven.program();
  const Lane& lane =
      program.ranks[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane_index)];
  LaneCode code;
  code.send_peer = lane.send_peer;
  code.recv_peer = lane.recv_peer;
  code.channel = lane.channel;
  for (size_t index = 0; index < lane.steps.size(); ++index) {
    const int step_index = static_cast<int>(index);
    code.steps.push_back(make_step(program, rank, lane.steps[index],
                                   proven.step_proof(rank, lane_index, step_index)));
    const StepCode& step = code.steps.back();
    if (step.sends) {
      ++code.sends_per_iteration;
      code.last_send_step = step_index;
    }
    if (step.receives) {
      ++code.receives_per_iteration;
      code.last_recv_step = step_index;
      code.received_chunks_max = std::max(code.received_chunks_max, step.chunk_count);
    }
  }
  return code;
}

}  // namespace

std::shared_ptr<const RankCode> make_rank_code(std::shared_ptr<const ProvenProgram> program,
                                               int rank) {
  auto code = std::make_shared<RankCode>();
  const RankProgram& own = program->program().ranks[static_cast<size_t>(rank)];
  code->rank = rank;
  code->scratch_chunk_count = own.scratch_chunk_count;
  for (size_t lane = 0; lane < own.lanes.size(); ++lane)
    code->lanes.push_back(make_lane(*program, rank, static_cast<int>(lane)));
  for (size_t lane = 0; lane < code->lanes.size(); ++lane) {
    for (const StepCode& step : code->lanes[lane].steps) {
      for (const StepCode::Dependence& on : step.dependences) {
        std::vector<int>& dependents = code->lanes[static_cast<size_t>(on.lane)]
                                           .steps[static_cast<size_t>(on.step)]
                                           .dependents;
        const int waiting = static_cast<int>(lane);
        if (std::find(dependents.begin(), dependents.end(), waiting) == dependents.end())
          dependents.push_back(waiting);
      }
    }
  }
  code->program = std::move(program);
  return code;
}

}  // namespace mccl
