#include "plan/plan_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "verb/verb.h"

namespace mccl {
namespace {

constexpr double kLeft = 80;
constexpr double kTop = 40;
constexpr double kWidth = 560;
constexpr double kHeight = 320;
constexpr double kLegendRow = 16;
// Ticks at every fourth power of two need no more; a size has at most 41 bits.
constexpr int kSizeBitsMax = 41;

constexpr std::array kColours = {"#24527a", "#c0504d", "#5a8f29", "#8064a2",
                                 "#d98324", "#2a9d9d", "#6b6b6b", "#b5368c"};

// A logarithmic axis: the logarithms of its ends.
struct Axis {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void cover(double value) {
    least = std::min(least, std::log10(value));
    most = std::max(most, std::log10(value));
  }
  // From 0 to 1; an axis of one value has it in the middle.
  double place(double value) const {
    return most > least ? (std::log10(value) - least) / (most - least) : 0.5;
  }
};

bool is_drawn(const PlotPoint& point) {
  return point.bytes > 0 && point.time_ns > 0;
}

std::string draw_label(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     text);
}

std::string draw_ticks(const Axis& sizes, const Axis& times) {
  std::string svg;
  for (int bits = 0; bits < kSizeBitsMax; bits += 2) {
    const auto bytes = static_cast<double>(int64_t{1} << bits);
    if (std::log10(bytes) < sizes.least || std::log10(bytes) > sizes.most) continue;
    svg += draw_label(kLeft + kWidth * sizes.place(bytes), kTop + kHeight + 16, "middle",
                      write_bytes(int64_t{1} << bits));
  }
  for (int power = static_cast<int>(std::ceil(times.least)); power <= times.most; ++power) {
    const double y = kTop + kHeight * (1 - times.place(std::pow(10, power)));
    svg += fmt::format(
        "<line x1=\"{0}\" y1=\"{2:.1f}\" x2=\"{1}\" y2=\"{2:.1f}\" stroke=\"#cccccc\"/>\n", kLeft,
        kLeft + kWidth, y);
    svg += draw_label(kLeft - 6, y + 4, "end", fmt::format("{:g} us", std::pow(10, power - 3)));
  }
  return svg;
}

}  // namespace

std::string draw_times_svg(const std::string& title, const std::vector<PlotCurve>& curves) {
  Axis sizes;
  Axis times;
  for (const PlotCurve& curve : curves)
    for (const PlotPoint& point : curve.points)
      if (is_drawn(point)) {
        sizes.cover(static_cast<double>(point.bytes));
        times.cover(point.time_ns);
      }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      kLeft + kWidth + 40, kTop + kHeight + 40 + kLegendRow * static_cast<double>(curves.size()));
  svg += draw_label(8, 20, "start", title);
  if (sizes.most >= sizes.least) svg += draw_ticks(sizes, times);
  for (size_t index = 0; index < curves.size(); ++index) {
    const char* const colour = kColours[index % kColours.size()];
    std::string points;
    for (const PlotPoint& point : curves[index].points)
      if (is_drawn(point))
        points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ",
                              kLeft + kWidth * sizes.place(static_cast<double>(point.bytes)),
                              kTop + kHeight * (1 - times.place(point.time_ns)));
    const double y = kTop + kHeight + 36 + kLegendRow * static_cast<double>(index);
    svg += fmt::format(
        "<polyline points=\"{0}\" fill=\"none\" stroke=\"{1}\" stroke-width=\"2\"/>\n"
        "<rect x=\"{2}\" y=\"{3:.1f}\" width=\"12\" height=\"4\" fill=\"{1}\"/>\n",
        points, colour, kLeft, y - 6);
    svg += draw_label(kLeft + 18, y, "start", curves[index].name);
  }
  return svg + "</svg>\n";
}

}  // namespace mccl
