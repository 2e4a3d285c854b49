// Invariants of laws L1 to L3 over many random worlds: nothing is stuck, every result is exact, and
// a seed repeats bit for bit.
//
//   seeds_test                      the seeds of `make test`
//   seeds_test --seeds=FIRST:COUNT  others: `make soak`, or one that failed, as in --seeds=1234:1
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "sim/seed_run.h"

namespace mccl {
namespace {

struct SeedRange {
  uint64_t first = 1;
  uint64_t count = 2'000;
};

constexpr uint64_t kRepeatEvery = 25;

std::string run_and_repeat(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
  const SeedOutcome outcome = run_seed(seed, prover);
  std::string failure = outcome.failure;
  if (failure.empty() && seed % kRepeatEvery == 0 &&
      run_seed(seed, prover).digest != outcome.digest)
    failure = "a second run differs";
  if (failure.empty()) return failure;
  return "seed " + std::to_string(seed) + ": " + failure +
         "\n  again with: seeds_test --seeds=" + std::to_string(seed) + ":1";
}

// Seeds are independent: two threads share them out, each with worlds of its own.
class Seeds : public testing::Test {
 public:
  explicit Seeds(SeedRange range) : range_(range) {}

  void TestBody() override {
    constexpr size_t kThreads = 2;
    constexpr size_t kFailuresMax = 10;
    std::atomic<uint64_t> next{0};
    std::array<std::vector<std::string>, kThreads> failures;
    std::vector<std::thread> threads;
    for (size_t index = 0; index < kThreads; ++index)
      threads.emplace_back([&, index] {
        const auto prover = std::make_shared<ProgramProver>();
        for (uint64_t seed = next++; seed < range_.count; seed = next++) {
          std::string failure = run_and_repeat(range_.first + seed, prover);
          if (!failure.empty()) failures[index].push_back(std::move(failure));
          if (failures[index].size() == kFailuresMax) return;
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::vector<std::string>& list : failures)
      for (const std::string& failure : list) ADD_FAILURE() << failure;
  }

 private:
  SeedRange range_;
};

bool parse_seeds(std::string_view text, SeedRange& range) {
  const char* end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc() || colon == end || *colon != ':') return false;
  const auto [stop, count_error] = std::from_chars(colon + 1, end, range.count);
  return count_error == std::errc() && stop == end;
}

int run_all(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  SeedRange range;
  constexpr std::string_view kFlag = "--seeds=";
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    if (argument.substr(0, kFlag.size()) != kFlag ||
        !parse_seeds(argument.substr(kFlag.size()), range)) {
      std::fprintf(stderr, "usage: seeds_test [--seeds=FIRST:COUNT] [--gtest_...]\n");
      return 2;
    }
  }
  testing::RegisterTest("Seeds", "EveryResultIsExactAndNothingIsStuck", nullptr, nullptr, __FILE__,
                        __LINE__, [range]() -> testing::Test* { return new Seeds(range); });
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace mccl

int main(int argc, char** argv) {
  return mccl::run_all(argc, argv);
}
