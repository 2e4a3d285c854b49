// Runs the program in the order of its messages and counts, on the way, the messages on the longest
// chain before each step. Tests: cost_test.cc, against the closed forms of all built-ins.
#include "planner/measured_cost.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl {
namespace {

// Of a step's message; all spans of a step are equally long.
int span_chunk_count(const Step& step) {
  const std::vector<Span>& spans = step.sources.empty() ? step.destinations : step.sources;
  return spans.empty() ? 0 : spans.front().count;
}

class Counter {
 public:
  explicit Counter(const Program& program) : program_(program) {
    for (const RankProgram& rank : program.ranks) done_.emplace_back(rank.lanes.size());
  }

  AlgorithmCost run() {
    count_hops();
    for (const RankProgram& rank : program_.ranks) count_rank(rank);
    const int64_t chunks_of_s = int64_t{program_.chunk_count} *
                                size_block_count(program_.collective, program_.rank_count());
    cost_.bytes_moved = {moved_, chunks_of_s};
    cost_.bytes_reduced = {reduced_, chunks_of_s};
    cost_.scratch_bytes = {scratch_, chunks_of_s};
    // Rings side by side are many messages at once, which the other form of the cost reckons with.
    cost_.is_pipelined = is_chain_ && forwards_ && cost_.messages <= cost_.hops;
    return cost_;
  }

 private:
  // Lanes that may go on are kept in a queue: a lane that is stuck comes back when the lane or the
  // stream that it waits for has moved.
  void count_hops() {
    for (size_t rank = 0; rank < done_.size(); ++rank)
      for (size_t lane = 0; lane < done_[rank].size(); ++lane) ready_.emplace_back(rank, lane);
    while (!ready_.empty()) {
      const auto [rank, lane] = ready_.front();
      ready_.pop_front();
      while (try_step(rank, lane)) continue;
    }
  }

  bool try_step(size_t rank, size_t lane_index) {
    const Lane& lane = program_.ranks[rank].lanes[lane_index];
    std::vector<int>& done = done_[rank][lane_index];
    if (done.size() == lane.steps.size()) return false;
    const Step& step = lane.steps[done.size()];
    const OpcodeRow& row = opcode_row(step.opcode);
    const int me = static_cast<int>(rank);
    int hops = done.empty() ? 0 : done.back();
    for (const StepRef& ref : step.dependences) {
      const std::vector<int>& other = done_[rank][static_cast<size_t>(ref.lane)];
      if (other.size() <= static_cast<size_t>(ref.step)) {
        lane_waiters_[{rank, static_cast<size_t>(ref.lane)}].insert(lane_index);
        return false;
      }
      hops = std::max(hops, other[static_cast<size_t>(ref.step)]);
    }
    if (row.receives) {
      const std::tuple<int, int, int> name{lane.recv_peer, me, lane.channel};
      std::deque<int>& taken = streams_[name];
      if (taken.empty()) {
        stream_waiters_[name] = {rank, lane_index};
        return false;
      }
      hops = std::max(hops, taken.front() + 1);
      taken.pop_front();
    }
    // What arrives is sent on by the step that takes it, or it waits for a whole slice.
    if (row.sends && !row.receives && hops > 0) is_chain_ = false;
    forwards_ |= row.sends && row.receives;
    if (row.sends) give(me, lane, hops);
    done.push_back(hops);
    cost_.hops = std::max(cost_.hops, hops);
    const auto waiters = lane_waiters_.find({rank, lane_index});
    if (waiters == lane_waiters_.end()) return true;
    for (const size_t waiter : waiters->second) ready_.emplace_back(rank, waiter);
    lane_waiters_.erase(waiters);
    return true;
  }

  void give(int me, const Lane& lane, int hops) {
    const std::tuple<int, int, int> name{me, lane.send_peer, lane.channel};
    streams_[name].push_back(hops);
    const auto waiter = stream_waiters_.find(name);
    if (waiter == stream_waiters_.end()) return;
    ready_.push_back(waiter->second);
    stream_waiters_.erase(waiter);
  }

  void count_rank(const RankProgram& rank) {
    int sent = 0;
    int received = 0;
    int64_t chunks_sent = 0;
    int64_t chunks_received = 0;
    int64_t chunks_reduced = 0;
    std::set<std::pair<int, int>> streams;
    for (const Lane& lane : rank.lanes) {
      if (lane.recv_peer >= 0) streams.emplace(lane.recv_peer, lane.channel);
      for (const Step& step : lane.steps) {
        const OpcodeRow& row = opcode_row(step.opcode);
        const int chunks = span_chunk_count(step);
        sent += row.sends ? 1 : 0;
        received += row.receives ? 1 : 0;
        chunks_sent += row.sends ? chunks : 0;
        chunks_received += row.receives ? chunks : 0;
        if (row.sends) cost_.message_chunks = std::max(cost_.message_chunks, chunks);
        if (step.opcode == Opcode::Fold)
          chunks_reduced += chunks * (static_cast<int64_t>(step.sources.size()) - 1);
        else if (row.reduces)
          chunks_reduced += chunks;
      }
    }
    cost_.recv_streams = std::max(cost_.recv_streams, static_cast<int>(streams.size()));
    cost_.messages = std::max({cost_.messages, sent, received});
    moved_ = std::max({moved_, chunks_sent, chunks_received});
    reduced_ = std::max(reduced_, chunks_reduced);
    scratch_ = std::max(scratch_, int64_t{rank.scratch_chunk_count});
  }

  using LaneName = std::pair<size_t, size_t>;  // rank, lane

  const Program& program_;
  AlgorithmCost cost_;
  int64_t moved_ = 0;
  int64_t reduced_ = 0;
  int64_t scratch_ = 0;
  bool is_chain_ = true;
  bool forwards_ = false;
  std::vector<std::vector<std::vector<int>>> done_;  // rank, lane, step: messages before its end
  std::map<std::tuple<int, int, int>, std::deque<int>> streams_;
  std::deque<LaneName> ready_;
  std::map<LaneName, std::set<size_t>> lane_waiters_;
  std::map<std::tuple<int, int, int>, LaneName> stream_waiters_;
};

}  // namespace

AlgorithmCost measure_cost(const Program& program) {
  return Counter(program).run();
}

}  // namespace mccl
