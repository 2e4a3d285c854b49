// Invariants of laws L1 to L3 over many random worlds: nothing is stuck, every result is exact, and
// a seed repeats bit for bit.
//
//   seeds_test                      the seeds of `make test`
//   seeds_test --seeds=FIRST:COUNT  others: `make soak`, or one that failed, as in --seeds=1234:1
#include <memory>
#include <string>

#include "sim/seed_range.h"
#include "sim/seed_run.h"

namespace mccl {
namespace {

constexpr uint64_t kDefaultCount = 2'000;
constexpr uint64_t kRepeatEvery = 25;

std::string run_and_repeat(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
  const SeedOutcome outcome = run_seed(seed, prover);
  if (!outcome.failure.empty()) return outcome.failure;
  if (seed % kRepeatEvery == 0 && run_seed(seed, prover).digest != outcome.digest)
    return "a second run differs";
  return {};
}

}  // namespace
}  // namespace mccl

int main(int argc, char** argv) {
  using namespace mccl;
  return run_seed_tests(argc, argv, "Seeds", "EveryResultIsExactAndNothingIsStuck", kDefaultCount,
                        [](const SeedRange& range) { check_seeds(range, run_and_repeat); });
}
