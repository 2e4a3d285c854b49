// MCCL_ALGO: a list in the manner of NCCL_ALGO, or the names of programs.
//
//   list := ["^"] name ("," name)*
//
// Case does not matter. A name is a program's full name ("all_reduce_ring"), the part after its
// collective ("ring", "all_pairs"), "tree" (recursive doubling and the binomial trees), or "msccl"
// (all programs from files, which have no short name of their own). The name
// of a family may carry a group size ("two_level_ring:20"), without it all sizes are meant. A
// leading "^" excludes the listed programs instead of admitting only them. A list restricts a
// collective only if one of its names is a program of that collective.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/status.h"

namespace mccl {

struct AlgorithmList {
  bool is_exclusion = false;
  std::vector<std::string> names;  // lower case; empty: no restriction
  bool operator==(const AlgorithmList&) const = default;
};

// InvalidArgument for an empty name, a "^" that does not lead, more than 64 names, and a name that
// is neither a program of `algorithms` nor one of NCCL's (those match nothing here); the message
// lists what exists. "" gives the empty list.
Result<AlgorithmList> parse_algorithm_list(std::string_view text,
                                           std::span<const Algorithm* const> algorithms);

// "^tree,ring": the canonical spelling.
std::string to_string(const AlgorithmList& list);

// Whether `name` means the algorithm; of a family, whatever the size.
bool name_matches(std::string_view name, const Algorithm& algorithm);

// Whether any name of the list means the choice; says nothing about is_exclusion.
bool list_mentions(const AlgorithmList& list, const ProgramChoice& choice);

// The sizes with which the list names the family.
std::vector<int> named_group_sizes(const AlgorithmList& list, const Algorithm& family);

// Names of the list that match no program of `algorithms` (NCCL's own).
std::vector<std::string> unmatched_names(const AlgorithmList& list,
                                         std::span<const Algorithm* const> algorithms);

}  // namespace mccl
