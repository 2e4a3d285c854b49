// Ranks that stand at switches with narrow uplinks: they plan by them, and gain by that.
#include <gtest/gtest.h>

#include <string>

#include "sim/timed_all_reduce.h"

namespace mccl {
namespace {

constexpr int kRanks = 16;
constexpr int64_t kBytes = 4 << 20;

sim::WorldOptions four_switches() {
  sim::WorldOptions world;
  world.latency_ns = 30'000;
  world.bytes_per_second = 1'177'000'000;
  world.nodes_per_switch = 4;
  world.uplink_ports = 1;
  return world;
}

struct Outcome {
  std::string program;
  TimeNs time_ns = 0;
};

Outcome run(const std::string& algorithms) {
  SimGroup group(
      kRanks, four_switches(),
      {.settings = {{"MCCL_ALGO", algorithms}, {"MCCL_LOG", "warning"}, {"MCCL_PROFILE", "lan"}},
       .portions = std::nullopt,
       .prover = nullptr});
  Tensors tensors(kRanks);
  time_all_reduce(group, tensors, 64);
  Outcome outcome;
  outcome.time_ns = time_all_reduce(group, tensors, kBytes);
  EXPECT_EQ(judge_sums(tensors), "");
  outcome.program = group.communicator(0).stats().programs.back().program;
  return outcome;
}

TEST(Switches, RanksPlanByTheUplinksAndGainByIt) {
  const Outcome planned = run("");
  const Outcome pairs = run("all_pairs");
  EXPECT_EQ(planned.program, "all_reduce_ring");
  EXPECT_EQ(pairs.program, "all_reduce_all_pairs");
  // Each of four ranks sends twelve of sixteen chunks out, twice, through one port.
  EXPECT_GT(pairs.time_ns, 3 * planned.time_ns);
}

TEST(Switches, GroupsThatAreSwitchesPassTheUplinkLess) {
  const Outcome fitting = run("two_level_ring:4");
  const Outcome straddling = run("two_level_ring:3");
  EXPECT_EQ(fitting.program, "all_reduce_two_level_ring:4");
  EXPECT_EQ(straddling.program, "all_reduce_two_level_ring:3");
  EXPECT_LT(fitting.time_ns, straddling.time_ns);
}

}  // namespace
}  // namespace mccl
