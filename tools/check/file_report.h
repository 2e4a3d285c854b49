// What can be said about one program file: read, judged, compared. Pure: texts in, values out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/xml.h"
#include "ir/xml_target.h"
#include "verify/verify.h"

namespace mccl {

// A line of a counter-example; the position is 0:0 where the line is about no step.
struct PlacedLine {
  XmlPosition position;
  std::string text;
};

struct PlacedFinding {
  Rule rule;
  bool in_place;
  XmlPosition position;
  std::string text;
  std::vector<PlacedLine> trace;
};

struct FileReport {
  XmlReadResult read;  // with the faults of the text
  std::vector<XmlFault> target_faults;
  std::vector<PlacedFinding> findings;  // of the proof, in document order
  Proof proof;                          // valid only when proven

  bool is_proven() const { return read.is_ok() && findings.empty(); }
  // Proven, and the target takes it.
  bool is_fit() const { return is_proven() && target_faults.empty(); }
};

// Reads, judges, and looks at the target's limits; with faults in the text nothing but those.
FileReport make_file_report(std::string_view text, XmlTarget target);

// All faults and findings, "name:line:column: text", trace lines indented; empty when there are
// none.
std::string to_string(const FileReport& report, std::string_view name);

// "all_reduce among 8 ranks, 64 chunks, out-of-place calls".
std::string describe_call(const Program& program);
// "in-place and out-of-place".
std::string describe_claims(const Program& program);
// "any size", "65537 to 524287 bytes", "4096 bytes and more".
std::string describe_window(const ProgramUse& use);

enum class Sameness : uint8_t {
  Equal,      // the same steps; names and what the files are meant for may differ
  SameBits,   // other steps, the same trees of reductions
  OtherBits,  // another tree somewhere, or another collective or number of ranks
  Unknown,    // one of the two is not proven
};

struct Comparison {
  Sameness sameness = Sameness::Unknown;
  std::string text;  // one sentence: what is equal, or the first difference
};

// Whether two files compute the same bits. Where they cut a block into different numbers of chunks
// the answer is about element counts that both divide, unless each block has one tree.
Comparison compare(const FileReport& one, const FileReport& other);

}  // namespace mccl
