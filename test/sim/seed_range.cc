#include "sim/seed_range.h"

#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace mccl {
namespace {

class SeedTest : public testing::Test {
 public:
  SeedTest(SeedRange range, std::function<void(const SeedRange&)> body)
      : range_(range), body_(std::move(body)) {}
  void TestBody() override { body_(range_); }

 private:
  SeedRange range_;
  std::function<void(const SeedRange&)> body_;
};

bool parse_seeds(std::string_view text, SeedRange& range) {
  const char* end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc() || colon == end || *colon != ':') return false;
  const auto [stop, count_error] = std::from_chars(colon + 1, end, range.count);
  return count_error == std::errc() && stop == end;
}

}  // namespace

// Seeds are independent: each thread has worlds of its own.
void check_seeds(const SeedRange& range, const SeedCheck& check) {
  constexpr size_t kThreads = 2;
  constexpr size_t kFailuresMax = 10;
  std::atomic<uint64_t> next{0};
  std::array<std::vector<std::string>, kThreads> failures;
  std::vector<std::thread> threads;
  for (size_t index = 0; index < kThreads; ++index)
    threads.emplace_back([&, index] {
      const auto prover = std::make_shared<ProgramProver>();
      for (uint64_t offset = next++; offset < range.count; offset = next++) {
        const uint64_t seed = range.first + offset;
        const std::string failure = check(seed, prover);
        if (failure.empty()) continue;
        failures[index].push_back("seed " + std::to_string(seed) + ": " + failure +
                                  "\n  again with: --seeds=" + std::to_string(seed) + ":1");
        if (failures[index].size() == kFailuresMax) return;
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<std::string>& list : failures)
    for (const std::string& failure : list) ADD_FAILURE() << failure;
}

int run_seed_tests(int argc, char** argv, const char* suite, const char* name,
                   uint64_t default_count, std::function<void(const SeedRange&)> body) {
  testing::InitGoogleTest(&argc, argv);
  SeedRange range{.count = default_count};
  constexpr std::string_view kFlag = "--seeds=";
  for (int index = 1; index < argc; ++index) {
    const std::string_view argument = argv[index];
    if (!argument.starts_with(kFlag) || !parse_seeds(argument.substr(kFlag.size()), range)) {
      std::fprintf(stderr, "usage: %s [--seeds=FIRST:COUNT] [--gtest_...]\n", argv[0]);
      return 2;
    }
  }
  testing::RegisterTest(
      suite, name, nullptr, nullptr, __FILE__, __LINE__,
      [range, body = std::move(body)]() -> testing::Test* { return new SeedTest(range, body); });
  return RUN_ALL_TESTS();
}

}  // namespace mccl
