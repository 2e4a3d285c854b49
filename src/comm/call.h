// What a caller asks for, before a plan is chosen.
#pragma once

#include <cstdint>

#include "algorithms/catalog.h"
#include "mccl/types.h"
#include "runtime/layout.h"

namespace mccl {

struct Call {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  CallBuffers buffers = {};
  // Elements of a rank's larger buffer, the same on every rank: the size S that plans go by. 0 for
  // all_to_all, where ranks have sizes of their own.
  int64_t count = 0;
  int64_t count_max = 0;               // of the longest block
  const Algorithm* program = nullptr;  // of a custom collective
  bool waits_for_earlier = false;  // barrier: earlier operations of this rank are over before it
};

}  // namespace mccl
