#include "plan/plan_plot.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

// 1 KiB and 1 us are the lower left corner, 4 KiB and 100 us the upper right one.
TEST(PlanPlot, HasLogarithmicAxesAndALegend) {
  EXPECT_EQ(
      draw_times_svg("t", {{.name = "ring", .points = {{1024, 1e3}, {2048, 1e4}, {4096, 1e5}}}}),
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"416\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<text x=\"8.0\" y=\"20.0\" text-anchor=\"start\">t</text>\n"
      "<text x=\"80.0\" y=\"376.0\" text-anchor=\"middle\">1K</text>\n"
      "<text x=\"640.0\" y=\"376.0\" text-anchor=\"middle\">4K</text>\n"
      "<line x1=\"80\" y1=\"360.0\" x2=\"640\" y2=\"360.0\" stroke=\"#cccccc\"/>\n"
      "<text x=\"74.0\" y=\"364.0\" text-anchor=\"end\">1 us</text>\n"
      "<line x1=\"80\" y1=\"200.0\" x2=\"640\" y2=\"200.0\" stroke=\"#cccccc\"/>\n"
      "<text x=\"74.0\" y=\"204.0\" text-anchor=\"end\">10 us</text>\n"
      "<line x1=\"80\" y1=\"40.0\" x2=\"640\" y2=\"40.0\" stroke=\"#cccccc\"/>\n"
      "<text x=\"74.0\" y=\"44.0\" text-anchor=\"end\">100 us</text>\n"
      "<polyline points=\"80.0,360.0 360.0,200.0 640.0,40.0\" fill=\"none\" stroke=\"#24527a\" "
      "stroke-width=\"2\"/>\n"
      "<rect x=\"80\" y=\"390.0\" width=\"12\" height=\"4\" fill=\"#24527a\"/>\n"
      "<text x=\"98.0\" y=\"396.0\" text-anchor=\"start\">ring</text>\n"
      "</svg>\n");
}

TEST(PlanPlot, LeavesOutWhatHasNoLogarithm) {
  const std::string svg =
      draw_times_svg("t", {{.name = "a", .points = {{0, 1e3}, {8, 0}, {8, 1e3}}}});
  EXPECT_NE(svg.find("points=\"360.0,200.0\""), std::string::npos) << svg;
}

TEST(PlanPlot, OfNothingIsAnEmptyPicture) {
  EXPECT_EQ(draw_times_svg("t", {}),
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"680\" height=\"400\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n"
            "<text x=\"8.0\" y=\"20.0\" text-anchor=\"start\">t</text>\n</svg>\n");
}

}  // namespace
}  // namespace mccl
