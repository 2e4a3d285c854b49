// The same agreement over real sockets: one thread per rank, each with an endpoint of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agreement/agreement_case.h"
#include "support/tcp_group.h"

namespace mccl {
namespace {

constexpr PlanPortions kSmallPortions = {.slice_bytes = 64, .window_bytes = 192};
constexpr int64_t kTimeoutNs = 60'000'000'000;

// Posts up to eight calls, then waits for them; every rank looks only at its own memory.
void run_rank(Communicator& communicator,
              const std::vector<std::unique_ptr<AgreementCase>>& cases) {
  constexpr size_t kInFlight = 8;
  struct InFlight {
    std::unique_ptr<RankMemory> memory;
    std::shared_ptr<Work> work;
    const AgreementCase* agreement;
  };
  for (size_t first = 0; first < cases.size(); first += kInFlight) {
    std::vector<InFlight> flight;
    for (size_t index = first; index < std::min(cases.size(), first + kInFlight); ++index)
      for (const bool in_place : {false, true}) {
        if (in_place && !has_in_place_form(*cases[index]->call().algorithm)) continue;
        auto memory = std::make_unique<RankMemory>(*cases[index], communicator.rank(), in_place);
        CallOptions options;
        options.timeout_ns = kTimeoutNs;
        options.will_wait = true;
        Result<std::shared_ptr<Work>> work = memory->post(communicator, std::move(options));
        ASSERT_TRUE(work.is_ok()) << work.status().to_string();
        flight.push_back({std::move(memory), std::move(work).value(), cases[index].get()});
      }
    for (const InFlight& one : flight) {
      const Status status = one.work->wait();
      ASSERT_TRUE(status.is_ok()) << status.to_string();
    }
    for (const InFlight& one : flight)
      ASSERT_EQ(one.memory->judge(), "") << to_string(one.agreement->call());
  }
}

void run_calls(const Algorithm& algorithm, int rank_count, const std::vector<AgreementCall>& calls,
               const std::optional<PlanPortions>& portions) {
  const Program program = build_program(algorithm, rank_count);
  std::vector<std::unique_ptr<AgreementCase>> cases;
  for (const AgreementCall& call : calls)
    cases.push_back(std::make_unique<AgreementCase>(call, program));
  run_tcp_ranks(
      rank_count, [&](Communicator& communicator) { run_rank(communicator, cases); },
      {{"MCCL_ALGO", to_string(default_program(algorithm, rank_count))},
       {"MCCL_ALGO_STRICT", "1"},
       {"MCCL_LOG", "warning"}},
      portions);
}

struct AgreementParam {
  const Algorithm* algorithm;
  int rank_count;
};

std::vector<AgreementParam> all_params() {
  std::vector<AgreementParam> params;
  for (const Algorithm* algorithm : catalog())
    for (const int rank_count : {1, 2, 3, 5}) params.push_back({algorithm, rank_count});
  return params;
}

std::string param_name(const testing::TestParamInfo<AgreementParam>& info) {
  return std::string(info.param.algorithm->name) + "_" + std::to_string(info.param.rank_count);
}

class TcpAgreement : public testing::TestWithParam<AgreementParam> {};

TEST_P(TcpAgreement, EqualsTheReferenceWithThePlansPortions) {
  const auto& [algorithm, rank_count] = GetParam();
  run_calls(*algorithm, rank_count,
            agreement_calls(*algorithm, rank_count, agreement_counts(rank_count)), std::nullopt);
}

TEST_P(TcpAgreement, EqualsTheReferenceInManySlices) {
  const auto& [algorithm, rank_count] = GetParam();
  run_calls(*algorithm, rank_count, a_third_of(agreement_calls(*algorithm, rank_count, {1000})),
            kSmallPortions);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, TcpAgreement, testing::ValuesIn(all_params()), param_name);

class TcpAgreementLarge : public testing::TestWithParam<AgreementParam> {};

TEST_P(TcpAgreementLarge, EqualsTheReferenceForAMillionElements) {
  const auto& [algorithm, rank_count] = GetParam();
  const AgreementCall call = large_agreement_call(*algorithm, DataType::Float32, 1);
  run_calls(*algorithm, rank_count, {call}, std::nullopt);
}

std::vector<AgreementParam> large_params() {
  std::vector<AgreementParam> params;
  for (const Algorithm* algorithm : catalog()) params.push_back({algorithm, 3});
  return params;
}

INSTANTIATE_TEST_SUITE_P(Catalogue, TcpAgreementLarge, testing::ValuesIn(large_params()),
                         param_name);

}  // namespace
}  // namespace mccl
