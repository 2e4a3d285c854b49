// Every program that an algorithm has for a rank count: of a family one per group size.
#pragma once

#include <vector>

#include "algorithms/catalog.h"

namespace mccl {

inline std::vector<ProgramChoice> choices_of(const Algorithm& algorithm, int rank_count) {
  if (algorithm.groups.default_size == nullptr) return {{&algorithm, 0}};
  std::vector<ProgramChoice> choices;
  for (int group_size = 1; group_size <= rank_count; ++group_size) {
    const ProgramChoice choice{&algorithm, group_size};
    if (check_rank_count(choice, rank_count).is_ok()) choices.push_back(choice);
  }
  return choices;
}

}  // namespace mccl
