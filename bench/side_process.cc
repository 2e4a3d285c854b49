#include "side_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/check.h"

namespace mccl {

double measure_in_process(const std::function<double()>& measure) {
  int ends[2];
  MCCL_CHECK_EQ(::pipe(ends), 0);
  std::fflush(stdout);
  const pid_t process = ::fork();
  MCCL_CHECK(process >= 0);
  if (process == 0) {
    const double result = measure();
    const ssize_t written = ::write(ends[1], &result, sizeof result);
    ::_exit(written == sizeof result ? 0 : 1);
  }
  ::close(ends[1]);
  double result = 0;
  const ssize_t got = ::read(ends[0], &result, sizeof result);
  ::close(ends[0]);
  int state = 0;
  MCCL_CHECK_EQ(::waitpid(process, &state, 0), process);
  MCCL_CHECK_EQ(state, 0);
  MCCL_CHECK(got == sizeof result);
  return result;
}

double median(std::vector<double> values) {
  MCCL_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Ratio compare_sides(int rounds, const std::function<double()>& first,
                    const std::function<double()>& second) {
  std::vector<double> a;
  std::vector<double> b;
  std::vector<double> ratios;
  for (int round = 0; round < rounds; ++round) {
    const bool is_first_first = round % 2 == 0;
    if (is_first_first) a.push_back(measure_in_process(first));
    b.push_back(measure_in_process(second));
    if (!is_first_first) a.push_back(measure_in_process(first));
    ratios.push_back(a.back() / b.back());
  }
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  return {median(ratios), *min, *max, median(a), median(b)};
}

}  // namespace mccl
