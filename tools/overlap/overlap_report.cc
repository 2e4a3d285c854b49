#include "overlap/overlap_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace mccl {

double OverlapReport::hidden_share(StepMode mode) const {
  const auto communication = static_cast<double>(step_ns(StepMode::Communication));
  const auto exposed = static_cast<double>(step_ns(mode) - step_ns(StepMode::Compute));
  return 1 - exposed / communication;
}

double OverlapReport::efficiency(StepMode mode) const {
  return static_cast<double>(step_ns(StepMode::Compute)) / static_cast<double>(step_ns(mode));
}

double hidden_bound(const StepRequest& request) {
  return 1 - 1.0 / request.bucket_count;
}

Result<OverlapReport> make_overlap_report(const StepRequest& request,
                                          const std::vector<StepMode>& modes, StepRunner run) {
  OverlapReport report{.rank_count = request.rank_count, .steps = {}};
  for (const StepMode mode : modes) {
    Result<StepReport> step = run(request, mode);
    if (!step.is_ok()) return step.status();
    report.steps.emplace(mode, std::move(step).value());
  }
  return report;
}

std::string draw_svg(const std::string& title, const std::vector<OverlapReport>& reports) {
  constexpr double kLeft = 240;
  constexpr double kWidth = 560;
  constexpr double kRow = 18;
  constexpr double kGap = 12;
  TimeNs longest = 1;
  double height = 40;
  for (const OverlapReport& report : reports) {
    for (const auto& [mode, step] : report.steps) longest = std::max(longest, step.step_ns);
    height += kRow * static_cast<double>(report.steps.size()) + kGap;
  }
  const auto scale = [&](TimeNs time_ns) {
    return kWidth * static_cast<double>(time_ns) / static_cast<double>(longest);
  };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<text x=\"8\" y=\"20\">{2}. Dark: compute; light: communication that is not hidden</text>\n",
      kLeft + kWidth + 100, height, title);
  double y = 40;
  for (const OverlapReport& report : reports) {
    for (const auto& [mode, step] : report.steps) {
      const TimeNs compute_ns =
          mode == StepMode::Communication ? 0 : report.step_ns(StepMode::Compute);
      svg += fmt::format(
          "<text x=\"8\" y=\"{0}\">{1} ranks, {2}</text>\n"
          "<rect x=\"{3}\" y=\"{4}\" width=\"{5:.1f}\" height=\"12\" fill=\"#24527a\"/>\n"
          "<rect x=\"{6:.1f}\" y=\"{4}\" width=\"{7:.1f}\" height=\"12\" fill=\"#9dc3e6\"/>\n"
          "<text x=\"{8:.1f}\" y=\"{0}\">{9:.0f} ms</text>\n",
          y + 10, report.rank_count, step_mode_name(mode), kLeft, y, scale(compute_ns),
          kLeft + scale(compute_ns), std::max(0.0, scale(step.step_ns - compute_ns)),
          kLeft + scale(step.step_ns) + 6, static_cast<double>(step.step_ns) / 1e6);
      y += kRow;
    }
    y += kGap;
  }
  return svg + "</svg>\n";
}

std::string draw_timeline(const StepReport& step, int width) {
  const auto place = [&](TimeNs time_ns) {
    return static_cast<size_t>(static_cast<double>(time_ns) / static_cast<double>(step.step_ns) *
                               (width - 1));
  };
  std::string text;
  size_t hidden = 0;
  for (size_t bucket = 0; bucket < step.ready_ns.size(); ++bucket) {
    std::string line(static_cast<size_t>(width), ' ');
    const size_t end = place(step.averaged_ns[bucket]);
    for (size_t at = place(step.ready_ns[bucket]); at <= end; ++at) line[at] = '=';
    line[place(step.compute_end_ns)] = '|';
    text += fmt::format("  bucket {:>3} {} ready {:.1f} ms, averaged {:.1f} ms\n", bucket, line,
                        static_cast<double>(step.ready_ns[bucket]) / 1e6,
                        static_cast<double>(step.averaged_ns[bucket]) / 1e6);
    if (step.averaged_ns[bucket] < step.compute_end_ns) ++hidden;
  }
  return text + fmt::format("  {} of {} buckets were averaged before the compute ended (|)\n",
                            hidden, step.ready_ns.size());
}

}  // namespace mccl
