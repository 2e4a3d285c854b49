#include "show/program_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl {
namespace {

// bytes * part / whole, rounded up; the product may need more than 64 bits.
int64_t scale_up(int64_t bytes, int64_t part, int64_t whole) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(bytes) * static_cast<Wide>(part);
  const Wide scaled = (product + static_cast<Wide>(whole) - 1) / static_cast<Wide>(whole);
  return scaled > static_cast<Wide>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(scaled);
}

std::string peer_text(const Lane& lane) {
  std::string text;
  if (lane.send_peer != -1) text += fmt::format(", sends to {}", lane.send_peer);
  if (lane.recv_peer != -1) text += fmt::format(", receives from {}", lane.recv_peer);
  return text + fmt::format(", channel {}", lane.channel);
}

}  // namespace

ProgramSummary summarize(const Program& program, const ProgramUse& use) {
  ProgramSummary summary;
  std::vector<int64_t> counts(opcodes().size(), 0);
  std::set<int> channels;
  for (const RankProgram& rank : program.ranks) {
    const auto lane_count = static_cast<int>(rank.lanes.size());
    summary.lanes += lane_count;
    summary.lanes_of_rank = std::max(summary.lanes_of_rank, lane_count);
    summary.scratch_chunks = std::max(summary.scratch_chunks, rank.scratch_chunk_count);
    for (const Lane& lane : rank.lanes) {
      if (lane.send_peer != -1 || lane.recv_peer != -1) channels.insert(lane.channel);
      summary.steps += static_cast<int64_t>(lane.steps.size());
      summary.steps_of_lane = std::max(summary.steps_of_lane, static_cast<int>(lane.steps.size()));
      for (const Step& step : lane.steps) {
        ++counts[static_cast<size_t>(step.opcode)];
        summary.dependences += static_cast<int64_t>(step.dependences.size());
        for (const std::vector<Span>* spans : {&step.sources, &step.destinations})
          for (const Span& span : *spans)
            summary.largest_count = std::max(summary.largest_count, span.count);
      }
    }
  }
  summary.channels = static_cast<int>(channels.size());
  for (size_t opcode = 0; opcode < counts.size(); ++opcode)
    if (counts[opcode] > 0)
      summary.steps_by_opcode.emplace_back(opcodes()[opcode].spelling, counts[opcode]);
  summary.size_chunks =
      program.chunk_count * size_block_count(program.collective, program.rank_count());
  if (summary.scratch_chunks > 0)
    summary.scratch_bytes =
        use.end_bytes == ProgramUse::kEndless
            ? -1
            : scale_up(use.end_bytes - 1, summary.scratch_chunks, summary.size_chunks);
  return summary;
}

std::string list_steps(const Program& program, int rank) {
  std::string text;
  const std::vector<Lane>& lanes = program.ranks[static_cast<size_t>(rank)].lanes;
  for (size_t index = 0; index < lanes.size(); ++index) {
    const Lane& lane = lanes[index];
    text += fmt::format("rank {} lane {}{}\n", rank, index, peer_text(lane));
    const std::string prefix = fmt::format("rank {} lane {} ", rank, index);
    for (size_t step = 0; step < lane.steps.size(); ++step) {
      const StepRef ref{static_cast<int>(index), static_cast<int>(step)};
      text += "  " + to_string(program, rank, ref).substr(prefix.size());
      const char* separator = ", after ";
      for (const StepRef& dependence : lane.steps[step].dependences) {
        text += fmt::format("{}lane {} step {}", separator, dependence.lane, dependence.step);
        separator = " and ";
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace mccl
