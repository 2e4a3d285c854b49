#include <algorithm>

#include "lang/check.h"
#include "mccl/language.h"

namespace mccl {
namespace {

int channel_count(const Program& program) {
  int count = 1;
  for (const RankProgram& rank : program.ranks)
    for (const Lane& lane : rank.lanes) count = std::max(count, lane.channel + 1);
  return count;
}

// The first step that names more than one chunk, in words; empty when there is none. Its copies
// would not be neighbours: chunk c of instance i is chunk c * instances + i.
std::string find_wide_step(const Program& program) {
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const RankProgram& rank_program = program.ranks[static_cast<size_t>(rank)];
    for (size_t lane = 0; lane < rank_program.lanes.size(); ++lane) {
      const std::vector<Step>& steps = rank_program.lanes[lane].steps;
      for (size_t step = 0; step < steps.size(); ++step)
        for (const auto* spans : {&steps[step].sources, &steps[step].destinations})
          for (const Span& span : *spans)
            if (span.count != 1)
              return to_string(program, rank, {static_cast<int>(lane), static_cast<int>(step)});
    }
  }
  return {};
}

Lane copy_lane(const Lane& lane, int instances, int instance, int channels) {
  Lane copy = lane;
  copy.channel = instance * channels + lane.channel;
  for (Step& step : copy.steps) {
    for (auto* spans : {&step.sources, &step.destinations})
      for (Span& span : *spans) span.index = span.index * instances + instance;
    for (StepRef& ref : step.dependences) ref.lane = ref.lane * instances + instance;
  }
  return copy;
}

}  // namespace

Result<Program> replicate(const Program& program, int instances) {
  if (instances < 1)
    return Status(StatusCode::InvalidArgument,
                  std::to_string(instances) + " instances of " + program.name);
  if (instances == 1) return program;
  const int channels = channel_count(program);
  if (int64_t{channels} * instances > lang::kChannelMax + 1)
    return Status(StatusCode::InvalidArgument,
                  std::to_string(instances) + " instances of " + program.name + ", which uses " +
                      std::to_string(channels) + " channels, need more than " +
                      std::to_string(lang::kChannelMax + 1) + " channels");
  if (const std::string wide = find_wide_step(program); !wide.empty())
    return Status(
        StatusCode::Unsupported,
        program.name + " has a step over several chunks, which cannot be replicated: " + wide);
  Program copies = program;
  copies.chunk_count *= instances;
  for (RankProgram& rank : copies.ranks) {
    std::vector<Lane> lanes;
    for (const Lane& lane : rank.lanes)
      for (int instance = 0; instance < instances; ++instance)
        lanes.push_back(copy_lane(lane, instances, instance, channels));
    rank.lanes = std::move(lanes);
    rank.scratch_chunk_count *= instances;
  }
  return copies;
}

}  // namespace mccl
