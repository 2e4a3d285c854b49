#include "simulate/simulation.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "algorithms/catalog.h"
#include "comm/program_prover.h"

namespace mccl {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

SimulationRequest ring(int rank_count, int64_t bytes) {
  SimulationRequest request;
  request.rank_count = rank_count;
  request.bytes = bytes;
  request.link = choose_link({.link = "paper"}).value();
  request.algorithm = "all_reduce_ring";
  return request;
}

TEST(Simulation, TakesTheTimeOfTheLawForARing) {
  const SimulationReport report = simulate(ring(24, 16 * kMiB)).value();
  EXPECT_NEAR(static_cast<double>(report.duration_ns()), 26.28e6, 0.01 * 26.28e6);
  EXPECT_EQ(report.program, "all_reduce_ring");
  // 2 (N-1)/N of the buffer, and some headers.
  const double share = 46.0 / 24 * 16 * static_cast<double>(kMiB);
  for (const uint64_t sent : report.bytes_sent)
    EXPECT_NEAR(static_cast<double>(sent), share, 0.01 * share);
}

TEST(Simulation, RepeatsBitForBit) {
  SimulationRequest request = ring(8, kMiB);
  request.world.latency_jitter = 1;
  request.world.seed = 5;
  const SimulationReport report = simulate(request).value();
  EXPECT_EQ(simulate(request).value().completion_ns, report.completion_ns);
  request.world.seed = 6;
  EXPECT_NE(simulate(request).value().completion_ns, report.completion_ns);
}

TEST(Simulation, OfALateRankEndsLaterByAsMuch) {
  SimulationRequest request = ring(4, kMiB);
  const TimeNs on_time_ns = simulate(request).value().duration_ns();
  request.lateness_ns = {0, 0, 50'000'000, 0};
  const TimeNs late_ns = simulate(request).value().duration_ns();
  // What could be sent before it came is a hop or two; frames of credit take some nanoseconds.
  EXPECT_LE(late_ns, on_time_ns + 50'000'000 + 10'000);
  EXPECT_GE(late_ns, 50'000'000 + on_time_ns / 2);
}

TEST(Simulation, LetsOperationsOverlap) {
  SimulationRequest request = ring(24, kMiB);
  const TimeNs alone_ns = simulate(request).value().duration_ns();
  request.operation_count = 8;
  const TimeNs each_ns = simulate(request).value().duration_ns() / 8;
  EXPECT_LT(each_ns, alone_ns / 3);  // four sets of channels
}

TEST(Simulation, RunsEveryCollectiveThatTheCatalogueServes) {
  for (const Algorithm* algorithm : catalog()) {
    SimulationRequest request = ring(5, 100'000);
    request.collective = algorithm->collective;
    request.algorithm = to_string(default_program(*algorithm, 5));
    const Result<SimulationReport> report = simulate(request);
    ASSERT_TRUE(report.is_ok()) << algorithm->name << ": " << report.status().to_string();
    EXPECT_EQ(report.value().program, request.algorithm);
    const std::vector<uint64_t>& sent = report.value().bytes_sent;
    EXPECT_GT(std::accumulate(sent.begin(), sent.end(), uint64_t{0}), 79'000u) << algorithm->name;
  }
}

TEST(Simulation, RunsAProvenProgramOfTheUser) {
  SimulationRequest request = ring(6, kMiB);
  const TimeNs builtin_ns = simulate(request).value().duration_ns();
  Program program = find_algorithm("all_reduce_ring")->build(6).value();
  program.name = "mine";
  request.algorithm = "";
  request.program = ProgramProver::prove(std::move(program)).value();
  const SimulationReport report = simulate(request).value();
  EXPECT_EQ(report.program, "mine");
  EXPECT_EQ(report.duration_ns(), builtin_ns);
}

TEST(Simulation, RefusesWhatDoesNotFit) {
  SimulationRequest request = ring(4, kMiB << 10);
  request.operation_count = 5;
  EXPECT_EQ(simulate(request).status().message(),
            "5 operations of 1073741824 bytes need 5368709120 bytes of memory, at most 4294967296 "
            "are taken: make them fewer or smaller");
  request.bytes = 3;
  EXPECT_EQ(simulate(request).status().message(),
            "3 bytes are less than one float32 for each of 1 blocks");
}

TEST(StepTraces, PairEverySendWithItsReceive) {
  std::ostringstream text;
  StepTrace trace(text, 3);
  SimulationRequest request = ring(3, 4096);
  request.operation_count = 2;
  request.trace = &trace;
  const SimulationReport report = simulate(request).value();
  trace.end();
  const nlohmann::json events = nlohmann::json::parse(text.str()).at("traceEvents");
  std::map<std::string, std::vector<double>> sent, taken;
  std::map<std::string, int> steps;
  double last_us = 0;
  for (const nlohmann::json& event : events) {
    const std::string phase = event.at("ph");
    if (phase == "s") sent[event.at("id")].push_back(event.at("ts"));
    if (phase == "f") taken[event.at("id")].push_back(event.at("ts"));
    if (phase == "X") ++steps[event.at("name")];
    if (phase == "e") last_us = std::max(last_us, event.at("ts").get<double>());
  }
  // Per operation: 3 ranks pass 4 messages each.
  EXPECT_EQ(sent.size(), 24u);
  for (const auto& [id, times] : sent) {
    ASSERT_EQ(times.size(), 1u) << id;
    ASSERT_EQ(taken[id].size(), 1u) << id;
    EXPECT_GE(taken[id][0], times[0] + 306) << id;
  }
  EXPECT_EQ(steps["send"], 6);
  EXPECT_EQ(steps["recv"], 6);
  EXPECT_GT(steps["wait: message"], 0);
  EXPECT_DOUBLE_EQ(last_us * 1e3, static_cast<double>(report.duration_ns()));
}

}  // namespace
}  // namespace mccl
