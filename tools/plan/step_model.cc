#include "plan/step_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "algorithms/catalog.h"
#include "base/check.h"
#include "planner/algorithm_list.h"
#include "verb/verb.h"

namespace mccl {
namespace {

struct ProtocolRow {
  std::string_view name;
  ProgramProtocol protocol;
  double efficiency;
};
constexpr std::array kProtocols = {
    ProtocolRow{"Simple", ProgramProtocol::Simple, 1},
    ProtocolRow{"LL", ProgramProtocol::LowLatency, 1.0 / 2},
    ProtocolRow{"LL128", ProgramProtocol::LowLatency128, 120.0 / 128},
};

const ProtocolRow& row_of(ProgramProtocol protocol) {
  return kProtocols[static_cast<size_t>(protocol)];
}

// The line of the program's own, else the one without a name; null: it is not looked at.
const ProtocolChoice* find_choice_of(std::span<const ProtocolChoice> choices,
                                     const Algorithm& algorithm) {
  const ProtocolChoice* others = nullptr;
  for (const ProtocolChoice& choice : choices) {
    if (choice.program.empty())
      others = &choice;
    else if (name_matches(choice.program, algorithm))
      return &choice;
  }
  return others;
}

Status check_names(Collective collective, std::span<const ProtocolChoice> choices) {
  for (const ProtocolChoice& choice : choices) {
    const bool is_known =
        choice.program.empty() ||
        std::any_of(catalog().begin(), catalog().end(), [&](const Algorithm* algorithm) {
          return algorithm->collective == collective && name_matches(choice.program, *algorithm);
        });
    if (is_known) continue;
    std::string known;
    for (const Algorithm* algorithm : catalog())
      if (algorithm->collective == collective)
        known += fmt::format("{}{}", known.empty() ? "" : ", ", algorithm->name);
    return wrong_usage(fmt::format("--protocol: \"{}\" is no program of {}; there are {}",
                                   choice.program, collective_name(collective), known));
  }
  return Status::ok();
}

StepLine make_line(const LinkCosts& costs, const ProgramChoice& program, int rank_count,
                   ProgramProtocol protocol) {
  const AlgorithmCost cost = program_cost(program, rank_count);
  const double moved = static_cast<double>(cost.bytes_moved.numerator) /
                       static_cast<double>(cost.bytes_moved.denominator);
  const double rate = static_cast<double>(costs.bytes_per_second) * protocol_efficiency(protocol);
  return {.program = to_string(program),
          .protocol = protocol,
          .fixed_ns = static_cast<double>(cost.hops) * static_cast<double>(costs.alpha_ns),
          .ns_per_byte = moved / rate * 1e9};
}

}  // namespace

double protocol_efficiency(ProgramProtocol protocol) {
  return row_of(protocol).efficiency;
}

Result<std::vector<ProtocolChoice>> parse_protocol_choices(const std::string& text) {
  std::vector<ProtocolChoice> choices;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t equals = word.find('=');
    const std::string name = equals == std::string::npos ? "" : word.substr(0, equals);
    const std::string protocol = equals == std::string::npos ? word : word.substr(equals + 1);
    const auto* const found =
        std::find_if(kProtocols.begin(), kProtocols.end(),
                     [&](const ProtocolRow& row) { return row.name == protocol; });
    if (found == kProtocols.end() || equals == 0)
      return wrong_usage(fmt::format(
          "--protocol \"{}\": allowed are Simple, LL and LL128, for all programs or for one, as in "
          "\"all_pairs=LL,ring=LL128\"",
          word));
    for (const ProtocolChoice& earlier : choices)
      if (earlier.program == name)
        return wrong_usage(fmt::format("--protocol names {} twice",
                                       name.empty() ? std::string("all programs") : name));
    choices.push_back({.program = name, .protocol = found->protocol});
  }
  return choices;
}

Result<std::vector<StepLine>> make_step_lines(const LinkCosts& costs, Collective collective,
                                              int rank_count,
                                              std::span<const ProtocolChoice> choices) {
  MCCL_RETURN_IF_ERROR(check_names(collective, choices));
  std::vector<StepLine> lines;
  std::string refusals;
  for (const Algorithm* algorithm : catalog()) {
    if (algorithm->collective != collective) continue;
    const ProtocolChoice* const choice = find_choice_of(choices, *algorithm);
    if (choice == nullptr) continue;
    const ProgramChoice program = default_program(*algorithm, rank_count);
    const Status serves = check_rank_count(program, rank_count);
    if (serves.is_ok())
      lines.push_back(make_line(costs, program, rank_count, choice->protocol));
    else
      refusals +=
          fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", algorithm->name, serves.message());
  }
  if (lines.empty())
    return Status(
        StatusCode::Unsupported,
        refusals.empty() ? fmt::format("no program of {}", collective_name(collective)) : refusals);
  return lines;
}

std::vector<StepCrossover> find_crossovers(std::span<const StepLine> lines) {
  std::vector<StepCrossover> crossovers;
  if (lines.empty()) return crossovers;
  // At 0 bytes the smallest constant wins, of equal ones the flattest.
  size_t current = 0;
  for (size_t index = 1; index < lines.size(); ++index) {
    const StepLine& one = lines[index];
    const StepLine& best = lines[current];
    if (one.fixed_ns < best.fixed_ns ||
        (one.fixed_ns == best.fixed_ns && one.ns_per_byte < best.ns_per_byte))
      current = index;
  }
  crossovers.push_back({.begin_bytes = 0, .index = current});
  // Each next one is the flatter line that is met first; flatter ones are finitely many.
  for (size_t round = 1; round < lines.size(); ++round) {
    double nearest_bytes = 0;
    size_t next = current;
    for (size_t index = 0; index < lines.size(); ++index) {
      const double gained = lines[current].ns_per_byte - lines[index].ns_per_byte;
      if (gained <= 0) continue;
      const double bytes = (lines[index].fixed_ns - lines[current].fixed_ns) / gained;
      const bool is_nearer =
          next == current || bytes < nearest_bytes ||
          (bytes == nearest_bytes && lines[index].ns_per_byte < lines[next].ns_per_byte);
      if (!is_nearer) continue;
      nearest_bytes = bytes;
      next = index;
    }
    if (next == current) break;
    current = next;
    crossovers.push_back({.begin_bytes = nearest_bytes, .index = current});
  }
  return crossovers;
}

}  // namespace mccl
