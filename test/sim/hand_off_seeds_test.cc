// Law L13 over many random worlds: results are exact, no rule of the hand-off is broken, and every
// rule, broken on purpose, is found out.
//
//   hand_off_seeds_test                      the seeds of `make test`
//   hand_off_seeds_test --seeds=FIRST:COUNT  others: `scripts/soak.sh seeds`
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>

#include "sim/hand_off_run.h"
#include "sim/seed_range.h"

namespace mccl {
namespace {

constexpr uint64_t kDefaultCount = 1'000;

void check_hand_off(const SeedRange& range) {
  std::atomic<uint64_t> all_reduces{0};
  std::atomic<uint64_t> device_waits{0};
  check_seeds(range, [&](uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
    const HandOffRunOutcome outcome = run_hand_off({.seed = seed}, prover);
    all_reduces += outcome.all_reduces;
    device_waits += outcome.device_waits;
    return outcome.drains > 0 ? "the host drained the device" : outcome.describe();
  });
  std::printf("%llu seeds: %llu all-reduces, %llu device waits, 0 drains\n",
              static_cast<unsigned long long>(range.count),
              static_cast<unsigned long long>(all_reduces.load()),
              static_cast<unsigned long long>(device_waits.load()));
  EXPECT_GT(device_waits, all_reduces / 4);
}

struct Fault {
  const char* name;
  sim::HandOffFault device;
  CallerFault caller;
  const char* finds;  // what at least one seed must show: part of describe()
};

class Faults : public testing::TestWithParam<Fault> {};

// The number of the first seed that shows it; 0 when none does.
TEST_P(Faults, AreFoundWithinAHundredSeeds) {
  const Fault& fault = GetParam();
  const auto prover = std::make_shared<ProgramProver>();
  uint64_t first_seed = 0;
  uint64_t dirty = 0;
  uint64_t wrong = 0;
  std::string words;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const HandOffRunOutcome outcome = run_hand_off(
        {.seed = seed, .device_fault = fault.device, .caller_fault = fault.caller}, prover);
    if (outcome.is_clean()) continue;
    ++dirty;
    wrong += outcome.wrong_elements > 0 ? 1 : 0;
    if (first_seed == 0) first_seed = seed;
    if (words.find(fault.finds) == std::string::npos) words = outcome.describe();
  }
  std::printf("%-16s first seed %llu, %llu of 100 seeds, wrong numbers in %llu\n", fault.name,
              static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(dirty),
              static_cast<unsigned long long>(wrong));
  EXPECT_GT(first_seed, 0u);
  EXPECT_NE(words.find(fault.finds), std::string::npos) << words;
}

INSTANTIATE_TEST_SUITE_P(
    HandOff, Faults,
    testing::Values(
        Fault{"EarlyProducer", sim::HandOffFault::EarlyProducer, CallerFault::None, "O1: "},
        Fault{"NoConsumerWait", sim::HandOffFault::NoConsumerWait, CallerFault::None, "O2: "},
        Fault{"NoCommit", sim::HandOffFault::NoCommit, CallerFault::None, "liveness: "},
        Fault{"EngineEncodes", sim::HandOffFault::EngineEncodes, CallerFault::None, "O3: "},
        Fault{"NoRaise", sim::HandOffFault::NoRaise, CallerFault::None, "stuck"},
        Fault{"EarlyRelease", sim::HandOffFault::None, CallerFault::EarlyRelease, "held: "},
        Fault{"Temporary", sim::HandOffFault::None, CallerFault::Temporary, "held: "}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace mccl

int main(int argc, char** argv) {
  return mccl::run_seed_tests(argc, argv, "Seeds", "AreExactAndKeepTheRules", mccl::kDefaultCount,
                              mccl::check_hand_off);
}
