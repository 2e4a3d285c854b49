// The alpha-beta model in which algorithms are compared on paper: T(S) = hops * alpha + moved * S /
// (B * e), with e the share of a link's rate that a protocol leaves to data. It knows neither
// slices nor processors, as src/planner/cost_model.h does: it is for links whose protocol is part
// of the choice, and for figures from elsewhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/xml.h"
#include "mccl/status.h"
#include "mccl/types.h"
#include "planner/link_profile.h"
#include "planner/program_fit.h"

namespace mccl {

// Simple 1; LL 1/2: 4 bytes of data per 4 of flag; LL128 120/128: 8 of flag per line.
double protocol_efficiency(ProgramProtocol protocol);

// "LL,ring=LL128": the protocol of each program. Without a name it is that of all programs that
// have no line of their own; where there is no such line, only the named ones are looked at.
struct ProtocolChoice {
  std::string program;  // as MCCL_ALGO names it; empty: all others
  ProgramProtocol protocol = ProgramProtocol::Simple;
  bool operator==(const ProtocolChoice&) const = default;
};
// InvalidArgument says what is allowed.
Result<std::vector<ProtocolChoice>> parse_protocol_choices(const std::string& text);

// T(S) = fixed_ns + S * ns_per_byte; S as in AlgorithmCost. Modelled.
struct StepLine {
  std::string program;
  ProgramProtocol protocol = ProgramProtocol::Simple;
  double fixed_ns = 0;
  double ns_per_byte = 0;

  double time_ns(int64_t bytes) const {
    return fixed_ns + ns_per_byte * static_cast<double>(bytes);
  }
};

// In catalogue order; a program that does not serve so many ranks is left out. InvalidArgument: a
// name that is no program of the collective. Unsupported: nothing is left.
Result<std::vector<StepLine>> make_step_lines(const LinkCosts& costs, Collective collective,
                                              int rank_count,
                                              std::span<const ProtocolChoice> choices);

// From `begin_bytes` on line `index` is the fastest.
struct StepCrossover {
  double begin_bytes = 0;
  size_t index = 0;
};
// From 0 on; ties go to the earlier line. Empty without lines.
std::vector<StepCrossover> find_crossovers(std::span<const StepLine> lines);

}  // namespace mccl
