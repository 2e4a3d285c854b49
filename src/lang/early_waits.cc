// A wait that comes earlier orders at least as much as before, so nothing can be wrong but that the
// program stops: a later wait may be for an answer to something that the lane sends in between. So
// the changed program is run, without data. All lanes are changed at once, which is nearly always
// right; otherwise one after the other, each kept only if the program still ends.
#include "lang/early_waits.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/opcode.h"
#include "lang/indexed.h"
#include "lang/schedule.h"

namespace mccl::lang {
namespace {

// Runs one iteration of the lanes with kMessagesPerStream messages per stream.
class DryRun {
 public:
  explicit DryRun(const Program& program) {
    std::map<std::tuple<int, int, int>, int> streams;
    const auto stream = [&](int sender, int receiver, int channel) {
      if (sender < 0 || receiver < 0) return -1;
      return streams.insert({{sender, receiver, channel}, static_cast<int>(streams.size())})
          .first->second;
    };
    for (int rank = 0; rank < program.rank_count(); ++rank) {
      first_lane_.push_back(lanes_.count());
      for (const Lane& lane : program.ranks[static_cast<size_t>(rank)].lanes)
        lanes_.push_back({&lane, rank, stream(rank, lane.send_peer, lane.channel),
                          stream(lane.recv_peer, rank, lane.channel), 0});
    }
    outstanding_.assign(streams.size(), 0);
  }

  bool ends() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (LaneRun& run : lanes_)
        while (can_step(run)) {
          step(run);
          has_moved = true;
        }
    }
    return std::all_of(lanes_.begin(), lanes_.end(), [](const LaneRun& run) {
      return run.done == static_cast<int>(run.lane->steps.size());
    });
  }

 private:
  struct LaneRun {
    const Lane* lane;
    int rank;
    int send_stream;
    int recv_stream;
    int done;
  };

  bool can_step(const LaneRun& run) const {
    if (run.done == static_cast<int>(run.lane->steps.size())) return false;
    const Step& step = run.lane->steps[static_cast<size_t>(run.done)];
    const OpcodeRow& row = opcode_row(step.opcode);
    if (row.receives && outstanding_[run.recv_stream] == 0) return false;
    if (row.sends && outstanding_[run.send_stream] == kMessagesPerStream) return false;
    return std::all_of(step.dependences.begin(), step.dependences.end(), [&](const StepRef& ref) {
      return lanes_[first_lane_[run.rank] + ref.lane].done > ref.step;
    });
  }

  void step(LaneRun& run) {
    const OpcodeRow& row = opcode_row(run.lane->steps[static_cast<size_t>(run.done)].opcode);
    if (row.receives) --outstanding_[run.recv_stream];
    if (row.sends) ++outstanding_[run.send_stream];
    ++run.done;
  }

  Indexed<LaneRun> lanes_;
  Indexed<int> first_lane_;   // by rank
  Indexed<int> outstanding_;  // by stream: messages given and not taken
};

// False when there was nothing to move.
bool hoist(Lane& lane) {
  const auto is_reduce = [](const Step& step) { return step.opcode == Opcode::Reduce; };
  const auto first = std::find_if(lane.steps.begin(), lane.steps.end(), is_reduce);
  if (first == lane.steps.end()) return false;
  std::map<int, int> latest;  // by lane
  bool is_changed = false;
  for (auto step = first; step != lane.steps.end(); ++step) {
    if (!is_reduce(*step)) continue;
    for (const StepRef& ref : step->dependences) {
      const auto [place, is_new] = latest.insert({ref.lane, ref.step});
      place->second = std::max(place->second, ref.step);
    }
    if (step == first) continue;
    is_changed = is_changed || !step->dependences.empty();
    step->dependences.clear();
  }
  if (!is_changed) return false;
  first->dependences.clear();
  for (const auto& [waited_lane, step] : latest) first->dependences.push_back({waited_lane, step});
  return true;
}

}  // namespace

void hoist_waits(Program& program) {
  Program all = program;
  for (RankProgram& rank : all.ranks)
    for (Lane& lane : rank.lanes) hoist(lane);
  if (DryRun(all).ends()) {
    program = std::move(all);
    return;
  }
  for (RankProgram& rank : program.ranks)
    for (Lane& lane : rank.lanes) {
      Lane before = lane;
      if (hoist(lane) && !DryRun(program).ends()) lane = std::move(before);
    }
}

}  // namespace mccl::lang
