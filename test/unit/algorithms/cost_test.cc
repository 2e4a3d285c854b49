// The closed forms against the lowered programs.
#include <gtest/gtest.h>

#include <map>

#include "algorithms/catalog.h"
#include "ir/collective.h"
#include "ir/opcode.h"
#include "planner/measured_cost.h"
#include "unit/algorithms/choices.h"

namespace mccl {
namespace {

// Of a step's message; all spans of a step are equally long.
int chunk_count(const Step& step) {
  return step.sources.empty() ? step.destinations[0].count : step.sources[0].count;
}

void expect_fraction(const Fraction& fraction, int64_t chunks, int64_t chunks_of_s) {
  EXPECT_EQ(fraction.numerator * chunks_of_s, chunks * fraction.denominator)
      << fraction.numerator << "/" << fraction.denominator << " against " << chunks << " of "
      << chunks_of_s << " chunks";
}

void expect_equal(const Fraction& left, const Fraction& right) {
  EXPECT_EQ(left.numerator * right.denominator, right.numerator * left.denominator)
      << left.numerator << "/" << left.denominator << " against " << right.numerator << "/"
      << right.denominator;
}

void expect_cost_of(const ProgramChoice& choice, int rank_count) {
  SCOPED_TRACE(to_string(choice) + " for " + std::to_string(rank_count) + " ranks");
  const AlgorithmCost cost = program_cost(choice, rank_count);
  const AlgorithmCost count = measure_cost(build_program(choice, rank_count).value());
  EXPECT_EQ(cost.hops, count.hops);
  EXPECT_EQ(cost.messages, count.messages);
  EXPECT_EQ(cost.message_chunks, count.message_chunks);
  EXPECT_EQ(cost.recv_streams, count.recv_streams);
  expect_equal(cost.bytes_moved, count.bytes_moved);
  expect_equal(cost.bytes_reduced, count.bytes_reduced);
  expect_equal(cost.scratch_bytes, count.scratch_bytes);
}

TEST(Cost, EqualsTheLoweredProgram) {
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
      for (const ProgramChoice& choice : choices_of(*algorithm, rank_count))
        expect_cost_of(choice, rank_count);
}

TEST(Cost, AMeasuredRingForwardsSliceBySliceAndAllPairsDoNot) {
  const auto is_pipelined = [](const char* name, int rank_count) {
    return measure_cost(find_algorithm(name)->build(rank_count).value()).is_pipelined;
  };
  for (const int rank_count : {2, 3, 8}) {
    EXPECT_TRUE(is_pipelined("all_reduce_ring", rank_count));
    EXPECT_FALSE(is_pipelined("all_reduce_all_pairs", rank_count));
    EXPECT_FALSE(is_pipelined("all_to_all_pairwise", rank_count));
  }
  EXPECT_FALSE(is_pipelined("all_reduce_ring", 1));
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
