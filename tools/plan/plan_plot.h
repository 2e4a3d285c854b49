// Times over sizes as a picture, both axes logarithmic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mccl {

struct PlotPoint {
  int64_t bytes = 0;
  double time_ns = 0;
  bool operator==(const PlotPoint&) const = default;
};

struct PlotCurve {
  std::string name;
  std::vector<PlotPoint> points;
};

// An SVG picture with a legend; points without a size or a time have no place on such axes and are
// left out. `title` says what the figures are.
std::string draw_times_svg(const std::string& title, const std::vector<PlotCurve>& curves);

}  // namespace mccl
