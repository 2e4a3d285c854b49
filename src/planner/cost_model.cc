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

// One phase: `messages` of `message_chunks` chunks each, in `slices` slices.
struct PhaseLoad {
  int64_t message_count = 1;
  int64_t message_chunks = 1;
  int64_t slice_bytes = 0;  // wanted, of a chunk
  int64_t sent = 0;
  int64_t reduced = 0;
};

// max(alpha + slice/B + gamma*slice, bytes/B, o*slices + gamma*bytes) of one message, and the sum
// of all of them.
PhaseTerms finish_phase(const LinkCosts& link, const PhaseLoad& load) {
  const int64_t hop_bytes = divide_up_bytes(load.sent, load.message_count);
  const int64_t hop_reduced = divide_up_bytes(load.reduced, load.message_count);
  const int64_t message_slice_bytes = saturate(WideInteger{load.slice_bytes} * load.message_chunks);
  const int64_t slices = std::max<int64_t>(1, divide_up_bytes(hop_bytes, message_slice_bytes));
  PhaseTerms terms{.hop_count = load.message_count,
                   .slice_bytes = divide_up_bytes(hop_bytes, slices)};
  terms.latency_ns =
      saturate(WideInteger{link.alpha_ns} + time_ns(terms.slice_bytes, link.bytes_per_second) +
               time_ns(divide_up_bytes(hop_reduced, slices), link.gamma_bytes_per_second));
  terms.wire_ns = time_ns(hop_bytes, link.bytes_per_second);
  terms.processor_ns = saturate(WideInteger{slices} * link.overhead_ns +
                                time_ns(hop_reduced, link.gamma_bytes_per_second));
  const int64_t slowest = std::max({terms.latency_ns, terms.wire_ns, terms.processor_ns});
  terms.total_ns = saturate(WideInteger{terms.hop_count} * slowest);
  return terms;
}

// A rank is busy with its own messages; the hops beyond them only fill the pipeline.
void finish_pipelined(CostTerms& terms, const LinkCosts& link, int64_t sent, int64_t reduced,
                      int64_t message_count) {
  const int64_t fill_count = terms.hop_count - message_count;
  MCCL_CHECK_LE(0, fill_count);
  const PhaseTerms phase = finish_phase(link, {.message_count = message_count,
                                               .slice_bytes = terms.slice_bytes,
                                               .sent = sent,
                                               .reduced = reduced});
  terms.hop_count = phase.hop_count;
  terms.slice_bytes = phase.slice_bytes;
  terms.latency_ns = phase.latency_ns;
  terms.wire_ns = phase.wire_ns;
  terms.processor_ns = phase.processor_ns;
  terms.fill_ns = saturate(WideInteger{fill_count} * terms.latency_ns + link.alpha_ns);
  terms.total_ns = saturate(WideInteger{phase.total_ns} + terms.fill_ns);
}

void finish_phases(CostTerms& terms, const LinkCosts& link, const AlgorithmCost& cost,
                   int64_t bytes) {
  terms.fill_ns = saturate(WideInteger{link.alpha_ns} * static_cast<int64_t>(cost.phases.size()));
  WideInteger total_ns = terms.fill_ns;
  for (const PipelinePhase& phase : cost.phases) {
    terms.phases.push_back(finish_phase(link, {.message_count = phase.hops,
                                               .message_chunks = phase.message_chunks,
                                               .slice_bytes = terms.slice_bytes,
                                               .sent = scale_up(bytes, phase.bytes_moved),
                                               .reduced = scale_up(bytes, phase.bytes_reduced)}));
    total_ns += terms.phases.back().total_ns;
  }
  terms.total_ns = saturate(total_ns);
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

void add_uplink(CostTerms& terms, const LinkCosts& link, int64_t uplink_bytes, int ports) {
  terms.uplink_ns = time_ns(divide_up_bytes(uplink_bytes, ports), link.bytes_per_second);
  WideInteger rest = WideInteger{terms.latency_ns} + terms.reduce_ns;
  if (terms.is_pipelined) rest = terms.fill_ns;
  if (!terms.phases.empty()) rest = WideInteger{terms.total_ns} - terms.phases.back().total_ns;
  terms.total_ns = std::max(terms.total_ns, saturate(rest + terms.uplink_ns));
}

std::string phase_text(const PhaseTerms& terms) {
  return fmt::format("{} hops x max(latency {} ns, wire {} ns, processor {} ns)", terms.hop_count,
                     terms.latency_ns, terms.wire_ns, terms.processor_ns);
}

}  // namespace

CostTerms estimate_cost(const AlgorithmCost& cost, const LinkCosts& link, int64_t bytes,
                        int64_t slice_bytes, const UplinkLoad& uplink) {
  MCCL_CHECK_LE(0, bytes);
  MCCL_CHECK_LT(0, slice_bytes);
  CostTerms terms{.is_pipelined = cost.is_pipelined, .slice_bytes = slice_bytes};
  if (cost.hops == 0) return terms;  // one rank: no message, nothing to compare
  terms.hop_count = cost.hops;
  const int64_t sent = scale_up(bytes, cost.bytes_moved);
  const int64_t reduced = scale_up(bytes, cost.bytes_reduced);
  if (!cost.phases.empty())
    finish_phases(terms, link, cost, bytes);
  else if (cost.is_pipelined)
    finish_pipelined(terms, link, sent, reduced, std::max(cost.messages, 1));
  else
    finish_additive(terms, link, sent, reduced, std::max(cost.messages, 1));
  if (uplink.ports > 0) add_uplink(terms, link, scale_up(bytes, uplink.bytes), uplink.ports);
  return terms;
}

std::string to_string(const CostTerms& terms) {
  if (terms.hop_count == 0) return "no messages = 0 ns";
  const std::string uplink =
      terms.uplink_ns > 0 ? fmt::format(", uplink {} ns", terms.uplink_ns) : "";
  if (terms.is_pipelined) {
    std::string text;
    if (terms.phases.empty())
      text = phase_text({.hop_count = terms.hop_count,
                         .latency_ns = terms.latency_ns,
                         .wire_ns = terms.wire_ns,
                         .processor_ns = terms.processor_ns});
    for (const PhaseTerms& phase : terms.phases)
      text += (text.empty() ? "" : " + ") + phase_text(phase);
    return fmt::format("{} + {} ns{} = {} ns", text, terms.fill_ns, uplink, terms.total_ns);
  }
  return fmt::format("latency {} ns + max(wire {} ns, processor {} ns{}) + reduce {} ns = {} ns",
                     terms.latency_ns, terms.wire_ns, terms.processor_ns, uplink, terms.reduce_ns,
                     terms.total_ns);
}

}  // namespace mccl
