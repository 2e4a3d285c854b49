#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace mccl {

void fail_check(const char* file, int line, const char* condition, const std::string& detail) {
  std::fprintf(stderr, "mccl: check failed at %s:%d: %s%s%s\n", file, line, condition,
               detail.empty() ? "" : ": ", detail.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace mccl
