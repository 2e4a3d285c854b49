#include "planner/cost_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "planner/wide_integer.h"

namespace mccl {
namespace {

int64_t scale_up(int64_t bytes, const Fraction& fraction) {
  return saturate(divide_up(WideInteger{bytes} * fraction.numerator, fraction.denominator));
}

// A rate of zero stands for "takes no time".
int64_t time_ns(int64_t bytes, int64_t bytes_per_second) {
  if (bytes_per_second == 0) return 0;
  return saturate(divide_up(WideInteger{bytes} * 1'000'000'000, bytes_per_second));
}

// A rank is busy with its own messages; the hops beyond them only fill the pipeline.
void finish_pipelined(CostTerms& terms, const LinkCosts& link, int64_t sent, int64_t reduced,
                      int64_t message_count) {
  const int64_t fill_count = terms.hop_count - message_count;
  MCCL_CHECK_LE(0, fill_count);
  terms.hop_count = message_count;
  const int64_t hop_bytes = divide_up_bytes(sent, message_count);
  const int64_t hop_reduced = divide_up_bytes(reduced, message_count);
  const int64_t slices = std::max<int64_t>(1, divide_up_bytes(hop_bytes, terms.slice_bytes));
  terms.slice_bytes = divide_up_bytes(hop_bytes, slices);
  terms.latency_ns =
      saturate(WideInteger{link.alpha_ns} + time_ns(terms.slice_bytes, link.bytes_per_second) +
               time_ns(divide_up_bytes(hop_reduced, slices), link.gamma_bytes_per_second));
  terms.wire_ns = time_ns(hop_bytes, link.bytes_per_second);
  terms.processor_ns = saturate(WideInteger{slices} * link.overhead_ns +
                                time_ns(hop_reduced, link.gamma_bytes_per_second));
  terms.fill_ns = saturate(WideInteger{fill_count} * terms.latency_ns + link.alpha_ns);
  const int64_t slowest = std::max({terms.latency_ns, terms.wire_ns, terms.processor_ns});
  terms.total_ns = saturate(WideInteger{terms.hop_count} * slowest + terms.fill_ns);
}

void finish_additive(CostTerms& terms, const LinkCosts& link, int64_t sent, int64_t reduced,
                     int64_t message_count) {
  const int64_t message_bytes = divide_up_bytes(sent, message_count);
  const int64_t slices = std::max<int64_t>(1, divide_up_bytes(message_bytes, terms.slice_bytes));
  terms.slice_bytes = divide_up_bytes(message_bytes, slices);
  terms.latency_ns = saturate(WideInteger{terms.hop_count} * link.alpha_ns);
  terms.wire_ns = time_ns(sent, link.bytes_per_second);
  // One message per hop is part of alpha.
  if (message_count > terms.hop_count)
    terms.processor_ns = saturate(WideInteger{slices} * message_count * link.overhead_ns);
  terms.reduce_ns = time_ns(reduced, link.gamma_bytes_per_second);
  terms.total_ns = saturate(WideInteger{terms.latency_ns} +
                            std::max(terms.wire_ns, terms.processor_ns) + terms.reduce_ns);
}

}  // namespace

CostTerms estimate_cost(const AlgorithmCost& cost, const LinkCosts& link, int64_t bytes,
                        int64_t slice_bytes) {
  MCCL_CHECK_LE(0, bytes);
  MCCL_CHECK_LT(0, slice_bytes);
  CostTerms terms{.is_pipelined = cost.is_pipelined, .slice_bytes = slice_bytes};
  if (cost.hops == 0) return terms;  // one rank: no message, nothing to compare
  terms.hop_count = cost.hops;
  const int64_t sent = scale_up(bytes, cost.bytes_moved);
  const int64_t reduced = scale_up(bytes, cost.bytes_reduced);
  if (cost.is_pipelined)
    finish_pipelined(terms, link, sent, reduced, std::max(cost.messages, 1));
  else
    finish_additive(terms, link, sent, reduced, std::max(cost.messages, 1));
  return terms;
}

std::string to_string(const CostTerms& terms) {
  if (terms.hop_count == 0) return "no messages = 0 ns";
  if (terms.is_pipelined)
    return fmt::format("{} hops x max(latency {} ns, wire {} ns, processor {} ns) + {} ns = {} ns",
                       terms.hop_count, terms.latency_ns, terms.wire_ns, terms.processor_ns,
                       terms.fill_ns, terms.total_ns);
  return fmt::format("latency {} ns + max(wire {} ns, processor {} ns) + reduce {} ns = {} ns",
                     terms.latency_ns, terms.wire_ns, terms.processor_ns, terms.reduce_ns,
                     terms.total_ns);
}

}  // namespace mccl
