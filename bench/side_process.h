// Comparing two sides fairly on a machine that does other things too: every measurement in a
// process of its own, the sides in turn (A B B A ...), and the median of the ratios of neighbours.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mccl {

// Runs `measure` in a forked process and returns its result. Aborts when the process fails.
double measure_in_process(const std::function<double()>& measure);

struct Ratio {
  double median = 0;
  double min = 0;
  double max = 0;
  double a = 0;  // median of the first side's results
  double b = 0;  // of the second side's
};

// `rounds` results of each side; the ratio is first side over second side.
Ratio compare_sides(int rounds, const std::function<double()>& first,
                    const std::function<double()>& second);

double median(std::vector<double> values);

}  // namespace mccl
