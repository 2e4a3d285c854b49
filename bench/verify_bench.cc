// How long the verifier takes and how much memory, at the sizes that law L8 promises: a 200-rank
// ring in under 1 s and 200-rank all-pairs in under 10 s, on one core. Prints one line per program.
// CPU time, so that a busy machine does not change it.
#include <sys/resource.h>

#include <cstdio>
#include <ctime>

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
    const auto start = std::clock();
    const mccl::Verdict verdict = mccl::verify(program);
    const auto end = std::clock();
    const double cpu_ms = 1e3 * static_cast<double>(end - start) / CLOCKS_PER_SEC;
    std::printf("%-32s %d ranks  %-10s %8.1f ms of CPU  peak %ld MiB\n", fixture.name.c_str(),
                kRankCount, verdict.is_proven() ? "proven" : "not proven", cpu_ms,
                peak_memory_mib());
  }
  return 0;
}
