// The judge. It looks at a lowered program alone, shares no code with `lang`, and says yes with a
// proof or no with a counter-example.
//
// What it proves (design 5): structure and limits; pairing of messages in FIFO order; that one
// iteration ends with two messages outstanding per stream and leaves every stream empty (k = 1 is
// reported); no race, with happens-before made of lane order, dependences and messages of all ranks
// (credits do not count; a send's place in its lane orders its read of the source only up to the
// capture waits of law L3, which the proof lists); no read of an unwritten chunk; every output
// chunk holds each contribution exactly once; equal origins (L4); equal trees on all ranks (L5). A
// program that claims both in-place and out-of-place is proven for both.
#pragma once

#include <string>
#include <vector>

#include "ir/proven_program.h"
#include "mccl/program.h"
#include "mccl/status.h"

namespace mccl {

// The rule that a finding is about; stable names for tests and tools.
enum class Rule : uint8_t {
  Structure,      // shapes, bounds, peers, one lane per stream end, limits
  Pairing,        // sends and receives of a stream do not pair up in number or chunk count
  Deadlock,       // an iteration cannot end with two messages outstanding per stream
  Race,           // two conflicting accesses without order
  Unwritten,      // a chunk is read before anything was written to it
  InputWritten,   // an out-of-place program writes its input
  Postcondition,  // an output chunk does not hold each contribution exactly once
  Origins,        // a reduce combines chunks of different origin, or a chunk of input or output is
                  // given another's value, for which it may be too small
  Trees,          // ranks, or the two aliasings, reduce the same chunk in different trees
};
const char* rule_name(Rule rule);

// A part of the program; -1 where it is about something larger.
struct FindingPlace {
  int rank = -1;
  int lane = -1;
  int step = -1;
  bool operator==(const FindingPlace&) const = default;
};

struct Finding {
  Rule rule;
  bool in_place;     // the aliasing under which it was found
  std::string text;  // one sentence: what, where, which ranks, the two values that disagree
  std::vector<std::string> trace;  // the counter-example, one step per line; may be empty
  // Where a reader looks first: of two steps the later one, of a circle any.
  FindingPlace place = {};
  std::vector<FindingPlace> trace_places = {};  // of each line of the trace
};

struct Verdict {
  std::vector<Finding> findings;  // empty: proven
  Proof proof;                    // valid only when proven
  bool is_proven() const { return findings.empty(); }
  // All findings as text, one per paragraph; empty when proven.
  std::string to_string() const;
};

// Never throws, never reads the clock, terminates on any input. Structure findings stop the later
// phases; otherwise all findings of a phase are reported, at most 20.
Verdict verify(const Program& program);

// The digest (Proof::output_trees) of one left fold over the ranks' contributions in rank order,
// rounded once: what MCCL_DETERMINISTIC=canonical wants of every reduction.
uint64_t rank_order_tree(int rank_count);

}  // namespace mccl
