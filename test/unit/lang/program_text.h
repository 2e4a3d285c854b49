// A lowered program as text, one step per line, for literal comparison.
#pragma once

#include <string>

#include "mccl/program.h"

namespace mccl {

// "rank 0 lane 0 step 0: send <- ... (after 1.0)", where 1.0 is lane 1 step 0 of the same rank.
inline std::string rank_text(const Program& program, int rank) {
  std::string text;
  const RankProgram& lanes = program.ranks[static_cast<size_t>(rank)];
  for (size_t lane = 0; lane < lanes.lanes.size(); ++lane) {
    const std::vector<Step>& steps = lanes.lanes[lane].steps;
    for (size_t step = 0; step < steps.size(); ++step) {
      text += to_string(program, rank, {static_cast<int>(lane), static_cast<int>(step)});
      for (const StepRef& ref : steps[step].dependences)
        text += " (after " + std::to_string(ref.lane) + "." + std::to_string(ref.step) + ")";
      text += "\n";
    }
  }
  return text;
}

inline std::string program_text(const Program& program) {
  std::string text;
  for (int rank = 0; rank < program.rank_count(); ++rank) text += rank_text(program, rank);
  return text;
}

}  // namespace mccl
