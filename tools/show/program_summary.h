// What a program file holds, as figures and as text. Says nothing about whether it is right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/xml.h"

namespace mccl {

struct ProgramSummary {
  int lanes = 0;          // of all ranks, as are the steps
  int lanes_of_rank = 0;  // the most that one has
  int channels = 0;       // different ones
  int64_t steps = 0;
  int steps_of_lane = 0;                                              // the most that one has
  std::vector<std::pair<std::string_view, int64_t>> steps_by_opcode;  // in opcode.def's order
  int largest_count = 0;                                              // chunks of one step
  int64_t dependences = 0;
  int scratch_chunks = 0;  // of the rank with the most
  int size_chunks = 0;     // of the larger buffer, S: MSCCL's nchunksperloop
  // Of that rank for the largest call of the window, S * scratch_chunks / size_chunks, rounded up;
  // -1: the window has no end.
  int64_t scratch_bytes = 0;
};

ProgramSummary summarize(const Program& program, const ProgramUse& use);

// "lane 0, sends to 1, receives from 1, channel 0" and its steps, for every lane of `rank`.
std::string list_steps(const Program& program, int rank);

}  // namespace mccl
