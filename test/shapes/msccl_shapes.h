// Programs with the shapes of the files that RCCL and Azure's scheduler ship: the same ranks,
// chunks, channels, lanes and steps by type, written in our language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/xml.h"
#include "mccl/program.h"

namespace mccl {

struct MscclShape {
  std::string file;  // whose shape it is
  Program program;
  ProgramUse use;
  // What the file holds.
  int nchunksperloop = 0;
  int nchannels = 0;
  int tbs_of_gpu = 0;
  std::string steps;  // "r 448, s 448": all but nops, in opcode.def's order
  int largest_count = 1;
  int s_chunks = 0;
};

std::vector<MscclShape> make_msccl_shapes();

// Azure's ap-1pass.xml: every rank reduces everything itself, in an order of its own.
MscclShape make_one_pass_shape();

// As MSCCL's compilers write it: a slot that a step does not use names the other end's.
std::string write_like_msccl_tools(const MscclShape& shape);

}  // namespace mccl
