// Laws L10 and L11 over many random worlds with one fault each: every surviving rank ends with the
// same first cause, and what is no fault costs time and nothing else.
//
//   fault_seeds_test                      the seeds of `make test`
//   fault_seeds_test --seeds=FIRST:COUNT  others: `make soak`, or one that failed
#include "sim/fault_run.h"
#include "sim/seed_range.h"

int main(int argc, char** argv) {
  using namespace mccl;
  constexpr uint64_t kDefaultCount = 1'000;
  return run_seed_tests(argc, argv, "FaultSeeds", "EverySurvivorEndsWithTheSameFirstCause",
                        kDefaultCount,
                        [](const SeedRange& range) { check_seeds(range, run_fault_seed); });
}
