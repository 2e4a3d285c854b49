#include "tune/crossover.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mccl {
namespace {

// The line through logarithms looks so far around the border, as a ratio of sizes: farther out
// ratios bend.
constexpr double kReach = 2;
constexpr size_t kLinePointsMin = 3;
// A closer look: from fewer passes nothing is known of how they scatter.
constexpr size_t kPassesMin = 3;
constexpr size_t kPassesMax = 8;
constexpr double kErrorMax = 0.03;
// Passes after the first one look so far around the border.
constexpr double kZoom = 2.5;

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Theil and Sen's line: the median of all slopes, and of what is left. A few points far off do not
// move it. Returns where it crosses 0, as a logarithm.
std::optional<double> root_of_line(std::span<const RatioPoint> points) {
  std::vector<double> slopes;
  for (size_t left = 0; left < points.size(); ++left)
    for (size_t right = left + 1; right < points.size(); ++right) {
      const double run = std::log(static_cast<double>(points[right].bytes)) -
                         std::log(static_cast<double>(points[left].bytes));
      if (run > 0)
        slopes.push_back((std::log(points[right].ratio) - std::log(points[left].ratio)) / run);
    }
  if (slopes.empty()) return std::nullopt;
  const double slope = median_of(std::move(slopes));
  if (slope == 0) return std::nullopt;
  std::vector<double> rests;
  for (const RatioPoint& point : points)
    rests.push_back(std::log(point.ratio) - slope * std::log(static_cast<double>(point.bytes)));
  return -median_of(std::move(rests)) / slope;
}

// The standard error of the mean of the logarithms of the passes' borders; infinite when a pass has
// none.
double error_of(std::span<const std::vector<RatioPoint>> passes) {
  std::vector<double> borders;
  double mean = 0;
  for (const std::vector<RatioPoint>& pass : passes) {
    const std::optional<MeasuredCrossover> border = find_crossover(pass);
    if (!border) return std::numeric_limits<double>::infinity();
    borders.push_back(std::log(border->bytes));
    mean += borders.back() / static_cast<double>(passes.size());
  }
  double squares = 0;
  for (const double border : borders) squares += (border - mean) * (border - mean);
  const auto count = static_cast<double>(passes.size());
  return std::sqrt(squares / (count - 1) / count);
}

}  // namespace

Split find_split(std::span<const RatioPoint> points) {
  // Loss of taking the slower one, in logarithms: with the first below, a point there costs what
  // its ratio is above 1, a point above what it is below 1.
  Split best;
  double least = std::numeric_limits<double>::infinity();
  for (const bool is_first_small : {true, false}) {
    const double sign = is_first_small ? 1 : -1;
    double loss = 0;
    for (const RatioPoint& point : points) loss += std::max(0.0, -sign * std::log(point.ratio));
    for (size_t below = 0; below <= points.size(); ++below) {
      if (loss < least) {
        least = loss;
        best = {.below = below, .is_first_small = is_first_small};
      }
      // Point `below` changes sides: max(0, x) - max(0, -x) = x.
      if (below < points.size()) loss += sign * std::log(points[below].ratio);
    }
  }
  return best;
}

std::optional<MeasuredCrossover> find_crossover(std::span<const RatioPoint> points) {
  const Split split = find_split(points);
  if (split.below == 0 || split.below == points.size()) return std::nullopt;
  const double middle = std::sqrt(static_cast<double>(points[split.below - 1].bytes) *
                                  static_cast<double>(points[split.below].bytes));
  MeasuredCrossover crossover{.is_first_small = split.is_first_small, .bytes = middle};
  std::vector<RatioPoint> near;
  for (const RatioPoint& point : points) {
    const auto bytes = static_cast<double>(point.bytes);
    if (bytes >= middle / kReach && bytes <= middle * kReach) near.push_back(point);
  }
  if (near.size() >= kLinePointsMin) {
    const std::optional<double> root = root_of_line(near);
    // A line that crosses outside of what it was laid through says nothing.
    if (root && *root >= std::log(static_cast<double>(near.front().bytes)) &&
        *root <= std::log(static_cast<double>(near.back().bytes)))
      crossover.bytes = std::exp(*root);
  }
  for (const RatioPoint& point : points) {
    if (static_cast<double>(point.bytes) <= crossover.bytes) {
      crossover.below_bytes = point.bytes;
    } else {
      crossover.above_bytes = point.bytes;
      break;
    }
  }
  return crossover;
}

std::vector<int64_t> spread_sizes(int64_t least, int64_t most, int count, int64_t unit_bytes) {
  std::vector<int64_t> sizes;
  const double ratio = std::log(static_cast<double>(most) / static_cast<double>(least));
  for (int index = 0; index < count; ++index) {
    const double share = count > 1 ? static_cast<double>(index) / (count - 1) : 0;
    const double wanted = static_cast<double>(least) * std::exp(ratio * share);
    const auto units = std::max<int64_t>(1, std::llround(wanted / static_cast<double>(unit_bytes)));
    const int64_t bytes = units * unit_bytes;
    if (bytes <= most && (sizes.empty() || bytes > sizes.back())) sizes.push_back(bytes);
  }
  return sizes;
}

std::vector<int64_t> closer_sizes(std::span<const RatioPoint> points, int count,
                                  int64_t unit_bytes) {
  const Split split = find_split(points);
  if (split.below == 0 || split.below == points.size()) return {};
  const size_t first = split.below >= 2 ? split.below - 2 : 0;
  const size_t last = std::min(split.below + 1, points.size() - 1);
  return spread_sizes(points[first].bytes, points[last].bytes, count, unit_bytes);
}

std::vector<int64_t> next_sizes(std::span<const RatioPoint> coarse,
                                std::span<const std::vector<RatioPoint>> passes, int count,
                                int64_t unit_bytes) {
  if (passes.empty()) return closer_sizes(coarse, count, unit_bytes);
  if (passes.size() >= kPassesMax || (passes.size() >= kPassesMin && error_of(passes) <= kErrorMax))
    return {};
  std::vector<RatioPoint> all;
  for (const std::vector<RatioPoint>& pass : passes)
    all.insert(all.end(), pass.begin(), pass.end());
  std::stable_sort(all.begin(), all.end(), [](const RatioPoint& left, const RatioPoint& right) {
    return left.bytes < right.bytes;
  });
  const std::optional<MeasuredCrossover> border = find_crossover(all);
  if (!border) {
    if (passes.size() >= kPassesMin) return {};
    return closer_sizes(coarse, count, unit_bytes);
  }
  const auto within = [&](double bytes) {
    return std::clamp(static_cast<int64_t>(bytes), coarse.front().bytes, coarse.back().bytes);
  };
  return spread_sizes(within(border->bytes / kZoom), within(border->bytes * kZoom), count,
                      unit_bytes);
}

}  // namespace mccl
