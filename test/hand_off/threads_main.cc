// One run by hand, for scripts/sanitize.sh: a thread sanitizer has nothing to say without a fault,
// and reports a race with O1 or O2 broken.
//
//   hand_off_threads none|O1|O2
#include <cstdio>
#include <string_view>

#include "hand_off/threads_run.h"

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  mccl::ThreadsRun run;
  if (name == "O1")
    run.fault = mccl::sim::HandOffFault::EarlyProducer;
  else if (name == "O2")
    run.fault = mccl::sim::HandOffFault::NoConsumerWait;
  else if (name != "none")
    return std::fprintf(stderr, "usage: hand_off_threads none|O1|O2\n"), 2;
  const mccl::ThreadsOutcome outcome = mccl::run_threads(run);
  std::printf("%llu wrong elements, %llu violations\n",
              static_cast<unsigned long long>(outcome.wrong_elements),
              static_cast<unsigned long long>(outcome.violations));
  return 0;
}
