#include "perf/perf_statistics.h"

#include <algorithm>
#include <numeric>

#include "verb/link_options.h"

namespace mccl {

PerfRates rates_of(const PerfFigures& figures, Collective collective, int rank_count, int64_t bytes,
                   int64_t calls) {
  PerfRates rates;
  if (figures.iteration_us.empty()) return rates;
  rates.time_us = std::accumulate(figures.iteration_us.begin(), figures.iteration_us.end(), 0.0) /
                  static_cast<double>(figures.iteration_us.size());
  if (rates.time_us > 0) {
    rates.algbw = static_cast<double>(bytes) / rates.time_us / 1e3;
    rates.busbw = rates.algbw * bus_factor(collective, rank_count);
  }
  if (bytes > 0 && calls > 0)
    rates.cpu_seconds_per_gb =
        figures.cpu_seconds / (static_cast<double>(bytes) * static_cast<double>(calls) / 1e9);
  return rates;
}

RatioSpread spread_ratios(std::span<const double> first, std::span<const double> second) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(first.size(), second.size()); ++round)
    if (first[round] > 0 && second[round] > 0) ratios.push_back(first[round] / second[round]);
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  const size_t middle = ratios.size() / 2;
  const double median =
      ratios.size() % 2 == 1 ? ratios[middle] : (ratios[middle - 1] + ratios[middle]) / 2;
  return {.median = median,
          .min = ratios.front(),
          .max = ratios.back(),
          .rounds = static_cast<int>(ratios.size())};
}

}  // namespace mccl
