// The closed forms against the lowered programs.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <tuple>

#include "algorithms/catalog.h"
#include "ir/collective.h"
#include "ir/opcode.h"
#include "unit/algorithms/choices.h"

namespace mccl {
namespace {

// What a program costs, in chunks instead of bytes.
struct Count {
  int hops = 0;
  int recv_streams = 0;
  int messages = 0;  // of the busiest rank in its busier direction; the chunks as well
  int message_chunks = 1;
  int64_t chunks_moved = 0;
  int64_t chunks_reduced = 0;
  int64_t scratch_chunks = 0;
};

// Of a step's message; all spans of a step are equally long.
int chunk_count(const Step& step) {
  return step.sources.empty() ? step.destinations[0].count : step.sources[0].count;
}

// Runs the program and counts, on the way, the messages on the longest chain before each step.
class Counter {
 public:
  explicit Counter(const Program& program) : program_(program) {
    for (const RankProgram& rank : program.ranks) {
      done_.emplace_back();
      for (size_t lane = 0; lane < rank.lanes.size(); ++lane) done_.back().emplace_back();
    }
  }

  Count run() {
    size_t step_count = 0;
    for (const RankProgram& rank : program_.ranks)
      for (const Lane& lane : rank.lanes) step_count += lane.steps.size();
    size_t run_count = 0;
    for (size_t before = 1; run_count != before;) {
      before = run_count;
      for (size_t rank = 0; rank < done_.size(); ++rank)
        for (size_t lane = 0; lane < done_[rank].size(); ++lane)
          while (try_step(rank, lane)) ++run_count;
    }
    EXPECT_EQ(run_count, step_count);
    for (size_t rank = 0; rank < done_.size(); ++rank) count_rank(program_.ranks[rank]);
    return count_;
  }

 private:
  bool try_step(size_t rank, size_t lane_index) {
    const Lane& lane = program_.ranks[rank].lanes[lane_index];
    std::vector<int>& done = done_[rank][lane_index];
    if (done.size() == lane.steps.size()) return false;
    const Step& step = lane.steps[done.size()];
    const OpcodeRow& row = opcode_row(step.opcode);
    const int me = static_cast<int>(rank);
    std::deque<int>* taken = nullptr;
    int hops = done.empty() ? 0 : done.back();
    for (const StepRef& ref : step.dependences) {
      const std::vector<int>& other = done_[rank][static_cast<size_t>(ref.lane)];
      if (other.size() <= static_cast<size_t>(ref.step)) return false;
      hops = std::max(hops, other[static_cast<size_t>(ref.step)]);
    }
    if (row.receives) {
      taken = &streams_[{lane.recv_peer, me, lane.channel}];
      if (taken->empty()) return false;
      hops = std::max(hops, taken->front() + 1);
      taken->pop_front();
    }
    if (row.sends) streams_[{me, lane.send_peer, lane.channel}].push_back(hops);
    done.push_back(hops);
    count_.hops = std::max(count_.hops, hops);
    return true;
  }

  void count_rank(const RankProgram& rank) {
    Count mine;
    int messages_received = 0;
    int64_t chunks_received = 0;
    std::set<std::pair<int, int>> streams;
    for (const Lane& lane : rank.lanes) {
      if (lane.recv_peer >= 0) streams.emplace(lane.recv_peer, lane.channel);
      for (const Step& step : lane.steps) {
        const OpcodeRow& row = opcode_row(step.opcode);
        const int chunks = chunk_count(step);
        if (row.sends) ++mine.messages;
        if (row.sends) count_.message_chunks = std::max(count_.message_chunks, chunks);
        if (row.sends) mine.chunks_moved += chunks;
        if (row.receives) ++messages_received;
        if (row.receives) chunks_received += chunks;
        if (step.opcode == Opcode::Fold)
          mine.chunks_reduced += chunks * (static_cast<int64_t>(step.sources.size()) - 1);
        else if (row.reduces)
          mine.chunks_reduced += chunks;
      }
    }
    count_.recv_streams = std::max(count_.recv_streams, static_cast<int>(streams.size()));
    count_.messages = std::max({count_.messages, mine.messages, messages_received});
    count_.chunks_moved = std::max({count_.chunks_moved, mine.chunks_moved, chunks_received});
    count_.chunks_reduced = std::max(count_.chunks_reduced, mine.chunks_reduced);
    count_.scratch_chunks =
        std::max(count_.scratch_chunks, static_cast<int64_t>(rank.scratch_chunk_count));
  }

  const Program& program_;
  std::vector<std::vector<std::vector<int>>> done_;  // rank, lane, step: messages before its end
  std::map<std::tuple<int, int, int>, std::deque<int>> streams_;
  Count count_;
};

void expect_fraction(const Fraction& fraction, int64_t chunks, int64_t chunks_of_s) {
  EXPECT_EQ(fraction.numerator * chunks_of_s, chunks * fraction.denominator)
      << fraction.numerator << "/" << fraction.denominator << " against " << chunks << " of "
      << chunks_of_s << " chunks";
}

void expect_cost_of(const ProgramChoice& choice, int rank_count) {
  SCOPED_TRACE(to_string(choice) + " for " + std::to_string(rank_count) + " ranks");
  const Program program = build_program(choice, rank_count).value();
  const AlgorithmCost cost = program_cost(choice, rank_count);
  const Count count = Counter(program).run();
  const int64_t chunks_of_s =
      program.chunk_count * size_block_count(program.collective, rank_count);
  EXPECT_EQ(cost.hops, count.hops);
  EXPECT_EQ(cost.messages, count.messages);
  EXPECT_EQ(cost.message_chunks, count.message_chunks);
  EXPECT_EQ(cost.recv_streams, count.recv_streams);
  expect_fraction(cost.bytes_moved, count.chunks_moved, chunks_of_s);
  expect_fraction(cost.bytes_reduced, count.chunks_reduced, chunks_of_s);
  expect_fraction(cost.scratch_bytes, count.scratch_chunks, chunks_of_s);
}

TEST(Cost, EqualsTheLoweredProgram) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
      for (const ProgramChoice& choice : choices_of(*algorithm, rank_count))
        expect_cost_of(choice, rank_count);
}

TEST(Cost, OfTwoLevelsIsTheSumOfTheirPhases) {
  const Algorithm& family = *find_algorithm("all_reduce_two_level_ring");
  const AlgorithmCost cost = family.groups.cost(200, 20);
  EXPECT_EQ(cost.hops, 38 + 18);
  ASSERT_EQ(cost.phases.size(), 2u);
  EXPECT_EQ(cost.phases[0].hops, 38);
  EXPECT_EQ(cost.phases[0].message_chunks, 10);
  expect_fraction(cost.phases[0].bytes_moved, 380, 200);
  expect_fraction(cost.phases[0].bytes_reduced, 190, 200);
  EXPECT_EQ(cost.phases[1].hops, 18);
  EXPECT_EQ(cost.phases[1].message_chunks, 1);
  expect_fraction(cost.phases[1].bytes_moved, 18, 200);
  expect_fraction(cost.phases[1].bytes_reduced, 9, 200);
  expect_fraction(cost.bytes_moved, 398, 200);  // as few as a ring of all
}

// The twelfth group of 16 is followed by one of 8, whose members own two shares each.
TEST(Cost, OfASmallerLastGroupIsThatOfItsBusierMembers) {
  const AlgorithmCost cost = find_algorithm("all_reduce_two_level_ring")->groups.cost(200, 16);
  EXPECT_EQ(cost.hops, 30 + 24);
  expect_fraction(cost.bytes_moved, 30 * 13 + 24, 208);  // of the full groups, 28 * 13 + 48 there
  expect_fraction(cost.phases[1].bytes_moved, 48, 208);
}

using Traffic = std::map<std::pair<int, int>, int64_t>;

Traffic traffic_of(const Program& program) {
  Traffic traffic;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank)
    for (const Lane& lane : program.ranks[rank].lanes)
      for (const Step& step : lane.steps)
        if (opcode_row(step.opcode).sends)
          traffic[{static_cast<int>(rank), lane.send_peer}] += chunk_count(step);
  return traffic;
}

TEST(Traffic, EqualsTheLoweredProgram) {
  int algorithm_count = 0;
  for (const Algorithm* algorithm : catalog()) {
    const bool is_family = algorithm->groups.default_size != nullptr;
    if (!is_family && algorithm->visit_traffic == nullptr) continue;
    ++algorithm_count;
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
      for (const ProgramChoice& choice : choices_of(*algorithm, rank_count)) {
        SCOPED_TRACE(to_string(choice) + " for " + std::to_string(rank_count) + " ranks");
        const Program program = build_program(choice, rank_count).value();
        Traffic traffic;
        const TrafficVisitor add = [&](int from, int to, int64_t chunk_count) {
          traffic[{from, to}] += chunk_count;
        };
        const int64_t chunks_of_s =
            is_family ? algorithm->groups.visit_traffic(rank_count, choice.group_size, add)
                      : algorithm->visit_traffic(rank_count, add);
        EXPECT_EQ(traffic, traffic_of(program));
        EXPECT_EQ(chunks_of_s,
                  program.chunk_count * size_block_count(program.collective, rank_count));
      }
  }
  EXPECT_EQ(algorithm_count, 4);
}

}  // namespace
}  // namespace mccl
