// From which size on another program is the faster one, out of measured times. Pure.
//
// Times of small machines scatter: single points may lie on the wrong side. So the border is where
// choosing by it costs least over all sizes, and it is placed between two sizes by a line through
// the logarithms of the ratios around it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace mccl {

// `ratio` > 0: time of the first over time of the other; below 1 the first is faster.
struct RatioPoint {
  int64_t bytes = 0;  // > 0
  double ratio = 1;
};

struct MeasuredCrossover {
  bool is_first_small = true;  // the first is faster below `bytes`, the other from there on
  double bytes = 0;
  // The nearest sizes that were measured on both sides of it.
  int64_t below_bytes = 0;
  int64_t above_bytes = 0;
};

// How many of `points`, which are in the order of sizes, lie below the border, and which side is
// the first's. 0 and all of them: one program is the faster one throughout.
struct Split {
  size_t below = 0;
  bool is_first_small = true;
};
Split find_split(std::span<const RatioPoint> points);

// Nothing when one program is the faster one at (nearly) all sizes.
std::optional<MeasuredCrossover> find_crossover(std::span<const RatioPoint> points);

// `count` sizes from `least` to `most`, both included, in equal ratios; whole multiples of
// `unit_bytes`, each once.
std::vector<int64_t> spread_sizes(int64_t least, int64_t most, int count, int64_t unit_bytes);

// Where to look closer: `count` sizes around the border of the split, two of the measured sizes to
// each side. Empty when there is no border.
std::vector<int64_t> closer_sizes(std::span<const RatioPoint> points, int count,
                                  int64_t unit_bytes);

// The next pass of a closer look, after those that were made: around the border that they found,
// until the borders of the single passes agree so well that their mean is known within some 3 %
// (one standard error), or 8 passes are made. Empty: it is enough, or there is no border. What
// drifts with time falls on all sizes of a pass. `coarse` by size.
std::vector<int64_t> next_sizes(std::span<const RatioPoint> coarse,
                                std::span<const std::vector<RatioPoint>> passes, int count,
                                int64_t unit_bytes);

}  // namespace mccl
