// The figures that the laws of the engine were found with, again: the real engine in the simulator
// against the experiments' own model (an idealised one: lanes, credits and ports, no frames).
//   sim_figures                 every figure as a table, minutes
//   sim_figures --only TEXT     those whose line contains TEXT
//   sim_figures --check FILE    0 when FILE holds each line of the table, 1 when some are missing
// Ranks share one buffer: results are not looked at here, the tests of test/sim do that.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "comm/simulated_group.h"
#include "transport/frame.h"

namespace mccl {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kInTheAirBytes = 378'828;  // alpha * B

struct Figure {
  const char* algorithm;
  int rank_count;
  int64_t bytes;
  int64_t slice_bytes;   // 0: the plan's own
  double experiment_ms;  // 0: it has no such figure
  int operation_count = 1;
  int ranks_per_switch = 0;
  int uplink_ports = 0;
  int64_t segment_bytes = 64 * kKiB;
};

constexpr Figure kFigures[] = {
    // One ring.
    {"ring", 4, 16 * kMiB, 0, 20.63},
    {"ring", 8, 16 * kMiB, 0, 24.02},
    {"ring", 16, 16 * kMiB, 0, 25.72},
    {"ring", 24, 16 * kMiB, 0, 26.28},
    {"ring", 70, 16 * kMiB, 8 * kKiB, 43.3},
    {"ring", 100, 16 * kMiB, 8 * kKiB, 61.8},
    {"ring", 200, 16 * kMiB, 8 * kKiB, 122.9},
    {"ring", 4, 25 * kMiB, 0, 32.07},
    {"ring", 8, 25 * kMiB, 0, 37.36},
    {"ring", 16, 25 * kMiB, 0, 40.01},
    {"ring", 24, 25 * kMiB, 0, 40.89},
    {"ring", 70, 25 * kMiB, 16 * kKiB, 43.96},
    {"ring", 100, 25 * kMiB, 8 * kKiB, 62.2},
    {"ring", 200, 25 * kMiB, 8 * kKiB, 123.6},
    {"ring", 200, 25 * kMiB, 0, 0},
    {"ring", 4, 64 * kMiB, 0, 81.6},
    {"ring", 8, 64 * kMiB, 0, 95.2},
    {"ring", 16, 64 * kMiB, 0, 101.9},
    {"ring", 24, 64 * kMiB, 0, 104.2},
    {"ring", 70, 64 * kMiB, 0, 107.2},
    {"ring", 100, 64 * kMiB, 0, 107.6},
    {"ring", 4, 256 * kMiB, 0, 325.6},
    {"ring", 8, 256 * kMiB, 0, 379.8},
    {"ring", 16, 256 * kMiB, 0, 406.9},
    {"ring", 24, 256 * kMiB, 0, 415.9},
    // Rotated all-pairs.
    {"all_pairs", 8, 64 * kKiB, 0, 0.705, 1, 0, 0, 16 * kKiB},
    {"all_pairs", 8, kMiB, 0, 2.04, 1, 0, 0, 16 * kKiB},
    {"all_pairs", 8, 4 * kMiB, 0, 6.49, 1, 0, 0, 16 * kKiB},
    {"all_pairs", 8, 25 * kMiB, 0, 37.62, 1, 0, 0, 16 * kKiB},
    {"all_pairs", 24, 64 * kKiB, 0, 0.713},
    {"all_pairs", 24, kMiB, 0, 2.24},
    {"all_pairs", 24, 4 * kMiB, 0, 7.11},
    {"all_pairs", 24, 25 * kMiB, 0, 41.20},
    {"all_pairs", 200, 64 * kKiB, 0, 0.717},
    {"all_pairs", 200, kMiB, 0, 2.30},
    {"all_pairs", 200, 4 * kMiB, 0, 7.35},
    {"all_pairs", 200, 25 * kMiB, 0, 42.7},
    {"all_pairs", 200, 25 * kMiB, 0, 625, 1, 16, 1},
    // Two levels.
    {"two_level_ring:10", 200, 25 * kMiB, 16 * kKiB, 50.6},
    {"two_level_ring:16", 200, 25 * kMiB, 16 * kKiB, 47.3},
    {"two_level_ring:20", 200, 25 * kMiB, 16 * kKiB, 42.4},
    {"two_level_ring:25", 200, 25 * kMiB, 16 * kKiB, 42.4},
    {"two_level_ring:29", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:34", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:40", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:50", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:67", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:100", 200, 25 * kMiB, 16 * kKiB, 0},
    {"two_level_ring:16", 200, 25 * kMiB, 16 * kKiB, 47.3, 1, 16, 10},
    {"two_level_ring:16", 200, 25 * kMiB, 16 * kKiB, 0, 1, 16, 1},
    {"two_level_ring:8", 200, 25 * kMiB, 16 * kKiB, 0, 1, 16, 1},
    {"two_level_ring:4", 200, 25 * kMiB, 16 * kKiB, 0, 1, 16, 1},
    {"two_level_ring:20", 200, 25 * kMiB, 16 * kKiB, 124.9, 1, 16, 1},
    {"two_level_ring:50", 200, 25 * kMiB, 0, 0},
    // Operations in a row.
    {"all_pairs", 24, 64 * kKiB, 0, 0.309, 40},
    {"ring", 24, 25 * kMiB, 0, 40.75, 18},
    {"ring", 200, 25 * kMiB, 8 * kKiB, 42.2, 8},
    {"ring", 200, 25 * kMiB, 8 * kKiB, 42.2, 8, 16, 1},
    {"two_level_ring:20", 200, 25 * kMiB, 16 * kKiB, 0, 8},
};

std::string size_text(int64_t bytes) {
  return bytes < kMiB ? fmt::format("{} KiB", bytes / kKiB) : fmt::format("{} MiB", bytes / kMiB);
}

void check_ok(const Status& status) {
  if (!status.is_ok()) fail_check(__FILE__, __LINE__, "figure", status.to_string());
}

// Nanoseconds from the calls to the last rank's end.
TimeNs time_all_reduce(SimulatedGroup& group, std::vector<float>& data, int64_t bytes,
                       int operation_count) {
  const int64_t element_count = bytes / static_cast<int64_t>(sizeof(float));
  data.resize(static_cast<size_t>(element_count * operation_count));
  const TimeNs begin = group.world().clock().now();
  std::vector<std::shared_ptr<Work>> works;
  for (int operation = 0; operation < operation_count; ++operation)
    for (int rank = 0; rank < group.rank_count(); ++rank) {
      float* buffer = data.data() + operation * element_count;
      Result<std::shared_ptr<Work>> work = group.communicator(rank).all_reduce(
          buffer, buffer, element_count, DataType::Float32, ReduceOp::Sum);
      check_ok(work.status());
      works.push_back(std::move(work).value());
    }
  MCCL_CHECK(group.run(works));
  const TimeNs time_ns = group.world().clock().now() - begin;
  for (const std::shared_ptr<Work>& work : works) check_ok(work->status());
  return time_ns;
}

double simulate_ms(const Figure& figure) {
  const Environment environment = {
      {"MCCL_PROFILE", "paper"}, {"MCCL_ALGO", figure.algorithm}, {"MCCL_LOG", "warning"}};
  Result<Config> config = parse_config(environment, nullptr);
  check_ok(config.status());
  SimulatedGroupOptions options{.config = std::move(config).value()};
  if (figure.slice_bytes > 0) {
    const int64_t window_bytes = kInTheAirBytes + 64 * kKiB;
    options.portions = PlanPortions{.slice_bytes = figure.slice_bytes,
                                    .window_bytes = (window_bytes + figure.slice_bytes - 1) /
                                                    figure.slice_bytes * figure.slice_bytes};
  }
  SimulatedGroup group(figure.rank_count,
                       {.segment_bytes_max = static_cast<size_t>(figure.segment_bytes),
                        .carried_bytes_max = kReportBytesMax - 1,  // slices only
                        .nodes_per_switch = figure.ranks_per_switch,
                        .uplink_ports = figure.uplink_ports},
                       std::move(options));
  check_ok(group.add_communicator("figures").status());
  std::vector<float> data;
  // Connections are made on first use.
  time_all_reduce(group, data, 64, 1);
  const TimeNs time_ns = time_all_reduce(group, data, figure.bytes, figure.operation_count);
  return static_cast<double>(time_ns) / 1e6 / figure.operation_count;
}

constexpr const char* kHead =
    "| program | ranks | bytes | slices | segments | in a row | switches | simulated ms | "
    "experiment ms | "
    "difference |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n";

std::string what_text(const Figure& figure) {
  const std::string slices = figure.slice_bytes == 0 ? "plan" : size_text(figure.slice_bytes);
  const std::string switches =
      figure.ranks_per_switch == 0
          ? "one"
          : fmt::format("of {}, uplinks of {}", figure.ranks_per_switch, figure.uplink_ports);
  return fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |", figure.algorithm, figure.rank_count,
                     size_text(figure.bytes), slices, size_text(figure.segment_bytes),
                     figure.operation_count, switches);
}

std::string line_text(const Figure& figure, double time_ms) {
  std::string text = fmt::format("{} {:.3g} |", what_text(figure), time_ms);
  if (time_ms >= 10) text = fmt::format("{} {:.2f} |", what_text(figure), time_ms);
  if (figure.experiment_ms == 0) return text + " | |";
  return text + fmt::format(" {:g} | {:+.1f} % |", figure.experiment_ms,
                            100 * (time_ms / figure.experiment_ms - 1));
}

std::string read_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int run(const char* only, const char* checked_path) {
  const std::string page = checked_path == nullptr ? "" : read_file(checked_path);
  int missing_count = 0;
  std::fputs(kHead, stdout);
  for (const Figure& figure : kFigures) {
    if (what_text(figure).find(only) == std::string::npos) continue;
    const auto begin = std::chrono::steady_clock::now();
    const std::string line = line_text(figure, simulate_ms(figure));
    const std::chrono::duration<double> wall_s = std::chrono::steady_clock::now() - begin;
    std::fprintf(stdout, "%s\n", line.c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "%.1f s\n", wall_s.count());
    if (checked_path == nullptr || page.find(line) != std::string::npos) continue;
    std::fprintf(stderr, "sim_figures: %s lacks this line\n", checked_path);
    ++missing_count;
  }
  return missing_count == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  const char* only = "";
  const char* checked_path = nullptr;
  for (int index = 1; index + 1 < argument_count; index += 2) {
    if (std::strcmp(arguments[index], "--only") == 0) only = arguments[index + 1];
    if (std::strcmp(arguments[index], "--check") == 0) checked_path = arguments[index + 1];
  }
  return mccl::run(only, checked_path);
}
