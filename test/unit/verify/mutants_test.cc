// A mutated program never passes unless it is right after all: what the verifier accepts is run in
// every order that an engine may choose, by code that shares nothing with the verifier.
//
// Deterministic: one seed, and mutants are made until there are enough. The table that is printed
// says, by kind, how many were refused and under which rule, and how many were accepted.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>

#include "support/program_fixtures.h"
#include "support/program_mutation.h"
#include "support/schedule_explorer.h"
#include "verify/verify.h"

namespace mccl {
namespace {

constexpr int64_t kStateLimit = 60'000;
constexpr int kSampleCount = 100;

struct Tally {
  int mutant_count = 0;
  int accepted_count = 0;
  int sampled_count = 0;  // accepted, with more states than the limit
  std::map<std::string, int> refused;
};

struct Suite {
  uint64_t seed;
  int mutant_count;
  int rank_count_min;
  int rank_count_max;
  int64_t state_limit;
};

// A mutant that differs from its origin; one in four has two faults, which may make up for each
// other.
Program make_mutant(const Program& origin, MutationKind kind, Prng& prng) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    Program mutant = origin;
    if (!mutate(mutant, kind, prng)) continue;
    if (prng.below(4) == 0) {
      Program twice = mutant;
      if (mutate(twice, kMutationKinds[prng.below(kMutationKinds.size())], prng)) mutant = twice;
    }
    if (mutant != origin) return mutant;
  }
  return origin;
}

bool is_place(const FindingPlace& place, const Program& program) {
  if (place.rank < 0 || place.rank >= program.rank_count()) return false;
  const auto& lanes = program.ranks[static_cast<size_t>(place.rank)].lanes;
  if (place.lane < 0) return place.step < 0;
  if (static_cast<size_t>(place.lane) >= lanes.size()) return false;
  const auto& steps = lanes[static_cast<size_t>(place.lane)].steps;
  return place.step < static_cast<int>(steps.size());
}

// Whether the finding, and each line of its trace, names a part of the program.
bool has_places(const Finding& finding, const Program& program) {
  if (finding.trace.size() != finding.trace_places.size()) return false;
  for (const FindingPlace& place : finding.trace_places)
    if (!is_place(place, program)) return false;
  // The program's sizes are about no part of it, nor are outputs that differ between the aliasings.
  const bool may_have_none = finding.rule == Rule::Structure || finding.rule == Rule::Trees;
  return is_place(finding.place, program) || (may_have_none && finding.place == FindingPlace());
}

// The wrong ends of mutants that were accepted.
std::vector<std::string> judge_mutant(const Program& mutant, const Suite& suite, Tally& tally) {
  ++tally.mutant_count;
  const Verdict verdict = verify(mutant);
  if (!verdict.is_proven()) {
    ++tally.refused[rule_name(verdict.findings[0].rule)];
    for (const Finding& finding : verdict.findings)
      if (!has_places(finding, mutant)) return {"a finding without a place: " + finding.text};
    return {};
  }
  ++tally.accepted_count;
  std::vector<std::string> faults;
  bool is_exhaustive = true;
  for (const bool in_place : {false, true}) {
    if (in_place ? !mutant.in_place : !mutant.out_of_place) continue;
    const Exploration exploration =
        explore_schedules(mutant, verdict.proof, in_place, suite.state_limit, kSampleCount);
    is_exhaustive &= exploration.is_exhaustive;
    if (!exploration.is_right) faults.push_back(mutant.name + ": " + exploration.fault);
  }
  if (!is_exhaustive) ++tally.sampled_count;
  return faults;
}

void print_tallies(const std::map<std::string, Tally>& tallies) {
  for (const auto& [kind, tally] : tallies) {
    std::printf("%-18s %4d mutants, %4d accepted (%d sampled)", kind.c_str(), tally.mutant_count,
                tally.accepted_count, tally.sampled_count);
    for (const auto& [rule, count] : tally.refused) std::printf(", %s %d", rule.c_str(), count);
    std::printf("\n");
  }
}

void run_suite(const Suite& suite) {
  Prng prng(suite.seed);
  std::map<std::string, Tally> tallies;
  int mutant_count = 0;
  for (int attempt = 0; mutant_count < suite.mutant_count; ++attempt) {
    ASSERT_LT(attempt, suite.mutant_count * 10);
    const auto& fixtures = program_fixtures();
    const ProgramFixture& fixture = fixtures[prng.below(fixtures.size())];
    const int rank_count =
        suite.rank_count_min + static_cast<int>(prng.below(static_cast<uint64_t>(
                                   suite.rank_count_max - suite.rank_count_min + 1)));
    Program origin = fixture.make(rank_count);
    const uint64_t claim = prng.below(3);
    if (origin.in_place) {
      origin.in_place = claim != 1;
      origin.out_of_place = claim != 2;
    }
    const MutationKind kind = kMutationKinds[static_cast<size_t>(attempt) % kMutationKinds.size()];
    const Program mutant = make_mutant(origin, kind, prng);
    if (mutant == origin) continue;
    ++mutant_count;
    for (const std::string& fault : judge_mutant(mutant, suite, tallies[mutation_name(kind)]))
      ADD_FAILURE() << "wrongly accepted (" << mutation_name(kind) << " on " << rank_count
                    << " ranks): " << fault;
  }
  print_tallies(tallies);
}

TEST(Mutants, OfTwoAndThreeRanksAreRefusedOrRightInEveryOrder) {
  run_suite({.seed = 20,
             .mutant_count = 3000,
             .rank_count_min = 2,
             .rank_count_max = 3,
             .state_limit = kStateLimit});
}

TEST(Mutants, OfFourToSixRanksAreRefusedOrRightInRandomOrders) {
  run_suite({.seed = 21,
             .mutant_count = 300,
             .rank_count_min = 4,
             .rank_count_max = 6,
             .state_limit = 0});
}

// One field of the program becomes a number that it should not have.
void corrupt(Program& program, Prng& prng) {
  const int number = std::array{-2147483647, -1, 0, 1, 2, 5, 9, 2147483647}[prng.below(8)];
  RankProgram& rank = program.ranks[prng.below(program.ranks.size())];
  Lane& lane = rank.lanes[prng.below(rank.lanes.size())];
  Step& step = lane.steps[prng.below(lane.steps.size())];
  auto& spans = step.sources.empty() ? step.destinations : step.sources;
  switch (prng.below(10)) {
    case 0:
      program.chunk_count = number;
      return;
    case 1:
      rank.scratch_chunk_count = number;
      return;
    case 2:
      lane.send_peer = number;
      return;
    case 3:
      lane.recv_peer = number;
      return;
    case 4:
      lane.channel = number;
      return;
    case 5:
      step.opcode = static_cast<Opcode>(number & 15);
      return;
    case 6:
      step.dependences.push_back({number, static_cast<int>(prng.below(3))});
      return;
    case 7:
      spans[0].index = number;
      return;
    case 8:
      spans[0].count = number;
      return;
    default:
      step.dependences.push_back({static_cast<int>(prng.below(3)), number});
      return;
  }
}

TEST(Mutants, WithAnyNumberInAnyFieldAreRefusedOrRight) {
  Prng prng(22);
  const Suite suite{.seed = 22,
                    .mutant_count = 3000,
                    .rank_count_min = 2,
                    .rank_count_max = 3,
                    .state_limit = kStateLimit};
  std::map<std::string, Tally> tallies;
  for (int i = 0; i < suite.mutant_count; ++i) {
    const auto& fixtures = program_fixtures();
    Program mutant =
        fixtures[prng.below(fixtures.size())].make(2 + static_cast<int>(prng.below(2)));
    corrupt(mutant, prng);
    for (const std::string& fault : judge_mutant(mutant, suite, tallies["corrupt a field"]))
      ADD_FAILURE() << "wrongly accepted: " << fault;
  }
  print_tallies(tallies);
}

}  // namespace
}  // namespace mccl
