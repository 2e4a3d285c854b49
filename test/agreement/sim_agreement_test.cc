// Law L4 and L5 in the engine: every algorithm of the catalogue, 1 to 9 ranks, awkward counts,
// every dtype and operation, in place and not, gives on every rank the bits of the reference
// executor.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agreement/agreement_case.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

// Slices of a cache line and windows of three: several iterations and instances from little data.
constexpr PlanPortions kSmallPortions = {.slice_bytes = 64, .window_bytes = 192};

sim::WorldOptions world_options(uint64_t seed, bool reads_late) {
  sim::WorldOptions options;
  options.seed = seed;
  options.latency_jitter = 1;
  options.reads_late = reads_late;
  return options;
}

SimGroupOptions forced(const Algorithm& algorithm, int rank_count,
                       const std::optional<PlanPortions>& portions = std::nullopt) {
  return {.settings = {{"MCCL_ALGO", to_string(default_program(algorithm, rank_count))},
                       {"MCCL_ALGO_STRICT", "1"},
                       {"MCCL_LOG", "warning"}},
          .portions = portions,
          .prover = nullptr};
}

// One call in flight, once out of place and once in place.
struct PostedCase {
  PostedCase(const AgreementCall& call, const Program& program) : agreement(call, program) {}
  AgreementCase agreement;
  std::vector<std::unique_ptr<RankMemory>> memories;
};

void post(SimGroup& group, PostedCase& posted, std::vector<std::shared_ptr<Work>>& works) {
  for (const bool in_place : {false, true}) {
    if (in_place && !has_in_place_form(*posted.agreement.call().algorithm)) continue;
    for (int rank = 0; rank < group.rank_count(); ++rank) {
      posted.memories.push_back(std::make_unique<RankMemory>(posted.agreement, rank, in_place));
      Result<std::shared_ptr<Work>> work = posted.memories.back()->post(group.communicator(rank));
      ASSERT_TRUE(work.is_ok()) << work.status().to_string();
      works.push_back(std::move(work).value());
    }
  }
}

// Sixteen calls at a time are in flight at once; each is then exact.
void run_calls(SimGroup& group, const std::vector<AgreementCall>& calls) {
  constexpr size_t kInFlight = 16;
  const Program program = build_program(*calls[0].algorithm, calls[0].rank_count);
  for (size_t first = 0; first < calls.size(); first += kInFlight) {
    std::vector<std::unique_ptr<PostedCase>> posted;
    std::vector<std::shared_ptr<Work>> works;
    for (size_t index = first; index < std::min(calls.size(), first + kInFlight); ++index) {
      posted.push_back(std::make_unique<PostedCase>(calls[index], program));
      ASSERT_EQ(posted.back()->agreement.judge_expectation(), "") << to_string(calls[index]);
      ASSERT_NO_FATAL_FAILURE(post(group, *posted.back(), works));
    }
    ASSERT_TRUE(group.run(works)) << "stuck at " << to_string(calls[first]);
    for (const std::shared_ptr<Work>& work : works)
      ASSERT_TRUE(work->status().is_ok()) << work->status().to_string();
    for (const auto& one : posted)
      for (const auto& memory : one->memories)
        ASSERT_EQ(memory->judge(), "") << to_string(one->agreement.call());
  }
}

struct AgreementParam {
  const Algorithm* algorithm;
  int rank_count;
};

std::vector<AgreementParam> all_params() {
  std::vector<AgreementParam> params;
  for (const Algorithm* algorithm : catalog())
    for (int rank_count = 1; rank_count <= 9; ++rank_count)
      params.push_back({algorithm, rank_count});
  return params;
}

std::string param_name(const testing::TestParamInfo<AgreementParam>& info) {
  return std::string(info.param.algorithm->name) + "_" + std::to_string(info.param.rank_count);
}

class SimAgreement : public testing::TestWithParam<AgreementParam> {};

TEST_P(SimAgreement, EqualsTheReferenceWithThePlansPortions) {
  const auto& [algorithm, rank_count] = GetParam();
  SimGroup group(rank_count, world_options(1, false), forced(*algorithm, rank_count));
  run_calls(group, agreement_calls(*algorithm, rank_count, agreement_counts(rank_count)));
  // The algorithm was really forced.
  for (const ProgramCount& used : group.communicator(0).stats().programs)
    EXPECT_EQ(used.program, to_string(default_program(*algorithm, rank_count)));
}

TEST_P(SimAgreement, EqualsTheReferenceInManySlices) {
  const auto& [algorithm, rank_count] = GetParam();
  SimGroup group(rank_count, world_options(2, true),
                 forced(*algorithm, rank_count, kSmallPortions));
  run_calls(group, a_third_of(agreement_calls(*algorithm, rank_count, {rank_count + 1, 1000})));
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SimAgreement, testing::ValuesIn(all_params()), param_name);

class SimAgreementLarge : public testing::TestWithParam<AgreementParam> {};

void run_million(const Algorithm& algorithm, DataType dtype, SimGroup& group) {
  run_calls(group, {large_agreement_call(algorithm, dtype, group.rank_count() - 1)});
}

TEST_P(SimAgreementLarge, EqualsTheReferenceForAMillionElements) {
  const auto& [algorithm, rank_count] = GetParam();
  SimGroup group(rank_count, world_options(3, true), forced(*algorithm, rank_count));
  run_million(*algorithm, DataType::Float32, group);
}

// Slices that need grants: the standing ones do not cover them.
TEST_P(SimAgreementLarge, EqualsTheReferenceInLargeSlices) {
  const auto& [algorithm, rank_count] = GetParam();
  SimGroup group(rank_count, world_options(4, true),
                 forced(*algorithm, rank_count,
                        PlanPortions{.slice_bytes = 160 * 1024, .window_bytes = 480 * 1024}));
  run_million(*algorithm, DataType::BFloat16, group);
}

std::vector<AgreementParam> large_params() {
  std::vector<AgreementParam> params;
  for (const Algorithm* algorithm : catalog()) params.push_back({algorithm, 3});
  return params;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, SimAgreementLarge, testing::ValuesIn(large_params()),
                         param_name);

}  // namespace
}  // namespace mccl
