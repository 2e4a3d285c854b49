// How long the verifier takes and how much memory, at the sizes that law L8 promises: a 200-rank
// ring in under 1 s and 200-rank all-pairs in under 10 s, on one core. Prints one line per program.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>

#include "support/program_fixtures.h"
#include "verify/verify.h"

namespace {

long peak_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#ifdef __APPLE__
  return usage.ru_maxrss >> 20;
#else
  return usage.ru_maxrss >> 10;
#endif
}

}  // namespace

int main() {
  constexpr int kRankCount = 200;
  for (const mccl::ProgramFixture& fixture : mccl::program_fixtures()) {
    const mccl::Program program = fixture.make(kRankCount);
    const auto start = std::chrono::steady_clock::now();
    const mccl::Verdict verdict = mccl::verify(program);
    const auto end = std::chrono::steady_clock::now();
    const double ms = std::chrono::duration<double, std::milli>(end - start).count();
    std::printf("%-32s %d ranks  %-10s %8.1f ms  peak %ld MiB\n", fixture.name.c_str(), kRankCount,
                verdict.is_proven() ? "proven" : "not proven", ms, peak_memory_mib());
  }
  return 0;
}
