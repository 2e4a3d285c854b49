// What follows from measured times. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mccl/types.h"

namespace mccl {

// A program that served calls of one measurement, and why it was chosen.
struct ServedProgram {
  std::string program;
  uint64_t calls = 0;
  std::string reason;
  bool operator==(const ServedProgram&) const = default;
};

// One column group: in-place or out-of-place. Measured.
struct PerfFigures {
  std::vector<double> iteration_us = {};  // of one call, per iteration, the ranks made one by -a
  int64_t wrong = -1;                     // elements, all ranks together; negative: not checked
  double cpu_seconds = 0;                 // of all ranks, in the calls alone
  std::vector<ServedProgram> programs = {};
};

struct PerfRates {
  double time_us = 0;  // the mean of the iterations
  double algbw = 0;    // GB/s
  double busbw = 0;
  double cpu_seconds_per_gb = 0;  // of S
};
// `calls` is how many were made; of nothing measured, all are 0.
PerfRates rates_of(const PerfFigures& figures, Collective collective, int rank_count, int64_t bytes,
                   int64_t calls);

// Ratios of times, round by round: above 1 `first` took longer.
struct RatioSpread {
  double median = 0;
  double min = 0;
  double max = 0;
  int rounds = 0;
};
// Rounds that took no time on either side are left out; with none left, all is 0.
RatioSpread spread_ratios(std::span<const double> first, std::span<const double> second);

}  // namespace mccl
