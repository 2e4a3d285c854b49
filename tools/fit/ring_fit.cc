// Least squares by normal equations of two unknowns, alpha and beta = 1/B, each row divided by its
// measured time. Units inside: microseconds and bytes. Tests: test/unit/tools/ring_fit_test.cc.
#include "fit/ring_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace mccl {
namespace {

struct Parameters {
  double alpha = 0;
  double beta = 0;
};

// What a row's time is made of: alpha * alphas + beta * bytes.
struct Addends {
  double alphas;
  double bytes;
};

struct RingRow {
  double messages;
  double chunk_bytes;
  double slice_bytes;
  double time_us;

  Addends latency_bound() const { return {messages + 1, messages * slice_bytes}; }
  Addends wire_bound() const { return {1, messages * chunk_bytes}; }
  Addends additive() const { return {messages, messages * chunk_bytes}; }
  // With more than alpha * B of these the wire is the limit.
  double headroom_bytes() const { return chunk_bytes - slice_bytes; }
};

double value_of(const Addends& addends, const Parameters& at) {
  return addends.alphas * at.alpha + addends.bytes * at.beta;
}

double model(RingForm form, const RingRow& row, const Parameters& at) {
  if (form == RingForm::Additive) return value_of(row.additive(), at);
  return std::max(value_of(row.latency_bound(), at), value_of(row.wire_bound(), at));
}

RingRow make_row(Collective collective, int rank_count, int64_t bytes, double time_us,
                 int64_t slice_bytes) {
  const double ranks = rank_count;
  const double chunk = static_cast<double>(bytes) / ranks;
  const double slices = std::max(1.0, std::ceil(chunk / static_cast<double>(slice_bytes)));
  return {.messages = (collective == Collective::AllReduce ? 2 : 1) * (ranks - 1),
          .chunk_bytes = chunk,
          .slice_bytes = chunk / slices,
          .time_us = time_us};
}

// Sums of the normal equations.
struct Normal {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;

  void add(const Addends& addends, double time_us) {
    const double u = addends.alphas / time_us;
    const double v = addends.bytes / time_us;
    aa += u * u;
    ab += u * v;
    bb += v * v;
    a += u;
    b += v;
  }
  double determinant() const { return aa * bb - ab * ab; }
  std::optional<Parameters> solve() const {
    // Rows that are multiples of each other leave only rounding behind.
    if (determinant() <= 1e-12 * aa * bb) return std::nullopt;
    const Parameters at = {(bb * a - ab * b) / determinant(), (aa * b - ab * a) / determinant()};
    if (at.alpha >= 0) return at.beta > 0 ? std::optional(at) : std::nullopt;
    return Parameters{0, b / bb};
  }
};

double sum_of_squares(RingForm form, const std::vector<RingRow>& rows, const Parameters& at) {
  double sum = 0;
  for (const RingRow& row : rows) sum += std::pow(model(form, row, at) / row.time_us - 1, 2);
  return sum;
}

struct Solution {
  Parameters at;
  Normal normal;
  size_t latency_bound_count = 0;
};

std::optional<Solution> solve_additive(const std::vector<RingRow>& rows) {
  Solution solution;
  for (const RingRow& row : rows) solution.normal.add(row.additive(), row.time_us);
  const std::optional<Parameters> at = solution.normal.solve();
  if (!at) return std::nullopt;
  solution.at = *at;
  return solution;
}

std::optional<Solution> solve_per_hop(std::vector<RingRow> rows) {
  std::sort(rows.begin(), rows.end(), [](const RingRow& left, const RingRow& right) {
    return left.headroom_bytes() < right.headroom_bytes();
  });
  std::optional<Solution> best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t bound = 0; bound <= rows.size(); ++bound) {
    Solution solution{.at = {}, .normal = {}, .latency_bound_count = bound};
    for (size_t index = 0; index < rows.size(); ++index)
      solution.normal.add(index < bound ? rows[index].latency_bound() : rows[index].wire_bound(),
                          rows[index].time_us);
    const std::optional<Parameters> at = solution.normal.solve();
    if (!at) continue;
    solution.at = *at;
    const double sum = sum_of_squares(RingForm::PerHop, rows, *at);
    if (sum >= least) continue;
    least = sum;
    best = solution;
  }
  return best;
}

}  // namespace

std::string_view ring_form_name(RingForm form) {
  return form == RingForm::Additive ? "additive" : "per_hop";
}

bool has_ring_model(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter;
}

double model_time_us(const RingFit& fit, Collective collective, int rank_count, int64_t bytes) {
  return model(fit.form, make_row(collective, rank_count, bytes, 1, fit.slice_bytes),
               {fit.alpha_us, 1 / fit.bytes_per_us});
}

Result<RingFit> fit_ring(RingForm form, std::span<const PerfRow> measured, int64_t slice_bytes) {
  if (measured.size() < 2)
    return Status(
        StatusCode::InvalidArgument,
        fmt::format("{} rows cannot tell alpha and B; at least two are needed", measured.size()));
  std::vector<RingRow> rows;
  for (const PerfRow& row : measured) {
    if (!has_ring_model(row.collective))
      return Status(StatusCode::InvalidArgument,
                    fmt::format("no ring model for {}: all_reduce, all_gather and reduce_scatter "
                                "have one",
                                collective_name(row.collective)));
    rows.push_back(make_row(row.collective, row.rank_count, row.bytes, row.time_us, slice_bytes));
  }
  const std::optional<Solution> solution =
      form == RingForm::Additive ? solve_additive(rows) : solve_per_hop(rows);
  if (!solution)
    return Status(StatusCode::InvalidArgument,
                  "the rows cannot tell alpha from B: measure small and large buffers");
  RingFit fit{.form = form,
              .slice_bytes = slice_bytes,
              .alpha_us = solution->at.alpha,
              .bytes_per_us = 1 / solution->at.beta,
              .residuals = {},
              .latency_bound_count = solution->latency_bound_count};
  for (size_t index = 0; index < rows.size(); ++index) {
    fit.residuals.push_back(model(form, rows[index], solution->at) / rows[index].time_us - 1);
    if (std::abs(fit.residuals[index]) > std::abs(fit.residuals[fit.worst_row]))
      fit.worst_row = index;
  }
  // Standard errors of a linear fit; that of B follows from beta's.
  const double freedom = static_cast<double>(rows.size()) - 2;
  const double variance = freedom > 0 ? sum_of_squares(form, rows, solution->at) / freedom
                                      : std::numeric_limits<double>::infinity();
  const Normal& normal = solution->normal;
  fit.alpha_error_us = std::sqrt(variance * normal.bb / normal.determinant());
  fit.bandwidth_error_bytes_per_us =
      std::sqrt(variance * normal.aa / normal.determinant()) * fit.bytes_per_us * fit.bytes_per_us;
  return fit;
}

}  // namespace mccl
