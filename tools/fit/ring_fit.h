// Latency and bandwidth of a network, from measured times of rings. Two forms of the model, of a
// collective that passes M = 2(N-1) messages around a ring of N ranks (all_gather and
// reduce_scatter N-1), with c = S/N bytes each, cut into equal slices of at most `slice_bytes`:
//
//   additive   t = M (alpha + c/B)                        every hop waits for the whole message
//   per_hop    t = M max(alpha + slice/B, c/B) + alpha    slices overlap (law L1)
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "fit/perf_file.h"
#include "mccl/status.h"

namespace mccl {

enum class RingForm : uint8_t { Additive, PerHop };
std::string_view ring_form_name(RingForm form);

struct RingFit {
  RingForm form = RingForm::Additive;
  int64_t slice_bytes = 0;
  double alpha_us = 0;
  double alpha_error_us = 0;  // standard error; infinite with two rows
  double bytes_per_us = 0;    // B
  double bandwidth_error_bytes_per_us = 0;
  // Per row (model - measured) / measured, and the row where it is largest.
  std::vector<double> residuals;
  size_t worst_row = 0;
  // Per-hop form: rows that are bound by latency; without any, alpha is little more than a guess.
  size_t latency_bound_count = 0;
};

// Whether the model speaks about the collective.
bool has_ring_model(Collective collective);

double model_time_us(const RingFit& fit, Collective collective, int rank_count, int64_t bytes);

// The alpha >= 0 and B with the least sum of squared relative residuals. Additive: in closed form.
// Per hop: rows are bound by latency or by the wire, according to c - slice against alpha * B, so
// that n rows have n + 1 divisions, each with a closed form; the best of them. InvalidArgument:
// fewer than two rows, a collective without a model, or rows that cannot tell alpha from B.
Result<RingFit> fit_ring(RingForm form, std::span<const PerfRow> rows, int64_t slice_bytes);

}  // namespace mccl
