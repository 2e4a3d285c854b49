#include "check/file_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/dtype.h"
#include "ir/collective.h"

namespace mccl {
namespace {

// Positions of many offsets of one text.
class PositionFinder {
 public:
  PositionFinder(std::string_view text, const XmlReadResult& read) : text_(text), read_(read) {}

  XmlPosition find(const FindingPlace& place) const {
    return find_position(text_, read_.offset_of(place.rank, place.lane, place.step));
  }

 private:
  std::string_view text_;
  const XmlReadResult& read_;
};

PlacedFinding place_finding(const Finding& finding, const PositionFinder& finder) {
  PlacedFinding placed{
      finding.rule, finding.in_place, finder.find(finding.place), finding.text, {}};
  for (size_t line = 0; line < finding.trace.size(); ++line)
    placed.trace.push_back({finder.find(finding.trace_places[line]), finding.trace[line]});
  return placed;
}

std::string position_text(std::string_view name, const XmlPosition& position) {
  return fmt::format("{}:{}:{}: ", name, position.line, position.column);
}

// The first chunk, cut into `one` and `other` chunks, whose trees differ; none: all are equal.
struct Difference {
  int64_t one = 0;
  int64_t other = 0;
};
std::optional<Difference> find_difference(const std::vector<uint64_t>& one,
                                          const std::vector<uint64_t>& other) {
  const auto one_count = static_cast<int64_t>(one.size());
  const auto other_count = static_cast<int64_t>(other.size());
  int64_t i = 0;
  int64_t j = 0;
  while (i < one_count && j < other_count) {
    if (one[static_cast<size_t>(i)] != other[static_cast<size_t>(j)]) return Difference{i, j};
    // Chunk i ends at (i + 1) / one_count of all.
    const int64_t one_end = (i + 1) * other_count;
    const int64_t other_end = (j + 1) * one_count;
    i += one_end <= other_end ? 1 : 0;
    j += other_end <= one_end ? 1 : 0;
  }
  return std::nullopt;
}

bool has_one_tree_per_block(const Program& program, const std::vector<uint64_t>& trees) {
  const auto chunk_count = static_cast<size_t>(program.chunk_count);
  for (size_t chunk = 0; chunk < trees.size(); ++chunk)
    if (trees[chunk] != trees[chunk - chunk % chunk_count]) return false;
  return true;
}

// Equal but for the name.
bool has_same_steps(const Program& one, const Program& other) {
  Program renamed = other;
  renamed.name = one.name;
  return one == renamed;
}

}  // namespace

FileReport make_file_report(std::string_view text, XmlTarget target) {
  FileReport report;
  report.read = read_xml(text);
  if (!report.read.is_ok()) return report;
  report.target_faults = check_target(text, report.read, target);
  Verdict verdict = verify(report.read.program);
  const PositionFinder finder(text, report.read);
  for (const Finding& finding : verdict.findings)
    report.findings.push_back(place_finding(finding, finder));
  std::stable_sort(
      report.findings.begin(), report.findings.end(),
      [](const PlacedFinding& a, const PlacedFinding& b) { return a.position < b.position; });
  report.proof = std::move(verdict.proof);
  return report;
}

std::string to_string(const FileReport& report, std::string_view name) {
  std::string text = report.read.to_string(name);
  if (!text.empty()) text += '\n';
  for (const XmlFault& fault : report.target_faults)
    text += position_text(name, {fault.line, fault.column}) + fault.text + "\n";
  for (const PlacedFinding& finding : report.findings) {
    text += position_text(name, finding.position) +
            fmt::format("{}{}: {}\n", rule_name(finding.rule),
                        finding.in_place ? " (in place)" : "", finding.text);
    for (const PlacedLine& line : finding.trace)
      text += "  " + position_text(name, line.position) + line.text + "\n";
  }
  return text;
}

std::string describe_claims(const Program& program) {
  if (program.in_place && program.out_of_place) return "in-place and out-of-place";
  return program.in_place ? "in-place" : "out-of-place";
}

std::string describe_call(const Program& program) {
  return fmt::format("{} among {} rank{}, {} chunk{}, {} calls",
                     collective_name(program.collective), program.rank_count(),
                     program.rank_count() == 1 ? "" : "s", program.chunk_count,
                     program.chunk_count == 1 ? "" : "s", describe_claims(program));
}

std::string describe_window(const ProgramUse& use) {
  if (use.end_bytes == ProgramUse::kEndless)
    return use.begin_bytes == 0 ? "any size" : fmt::format("{} bytes and more", use.begin_bytes);
  return fmt::format("{} to {} bytes", use.begin_bytes, use.end_bytes - 1);
}

Comparison compare(const FileReport& one, const FileReport& other) {
  if (!one.is_proven() || !other.is_proven())
    return {Sameness::Unknown, "bits cannot be compared: not both files are proven"};
  const Program& a = one.read.program;
  const Program& b = other.read.program;
  if (has_same_steps(a, b))
    return {Sameness::Equal,
            a.name == b.name ? "the same program" : "the same program but for its name"};
  if (a.collective != b.collective || a.rank_count() != b.rank_count())
    return {Sameness::OtherBits,
            fmt::format("another call: {} among {}, and {} among {}", collective_name(a.collective),
                        a.rank_count(), collective_name(b.collective), b.rank_count())};
  const std::optional<Difference> difference =
      find_difference(one.proof.output_trees, other.proof.output_trees);
  if (difference)
    return {Sameness::OtherBits,
            fmt::format("other bits: output chunk {} of {} and chunk {} of {} are reduced in "
                        "different orders",
                        difference->one, one.proof.output_trees.size(), difference->other,
                        other.proof.output_trees.size())};
  const bool is_for_any_count =
      a.chunk_count == b.chunk_count || (has_one_tree_per_block(a, one.proof.output_trees) &&
                                         has_one_tree_per_block(b, other.proof.output_trees));
  if (is_for_any_count) return {Sameness::SameBits, "the same bits by other steps"};
  return {Sameness::SameBits,
          fmt::format("the same bits by other steps, where {} divides the elements of a block",
                      std::lcm(int64_t{a.chunk_count}, int64_t{b.chunk_count}))};
}

}  // namespace mccl
