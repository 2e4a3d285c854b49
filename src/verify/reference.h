// The slow, obvious, single-threaded executor: the oracle of the agreement tests. It shares no
// kernel and no layout code with the runtime: one iteration, scalar arithmetic, ordinary loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mccl/program.h"
#include "mccl/status.h"
#include "mccl/types.h"

namespace mccl {

using Bytes = std::vector<std::byte>;

struct ReferenceCall {
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  bool in_place = false;
  // Elements of each origin (src/ir/collective.h): one entry for all_reduce, reduce and broadcast,
  // one per pair of ranks for all_to_all, one per rank for the others.
  std::vector<int64_t> block_counts;
  // Per rank: the input's bytes, blocks concatenated (only the root's input of a broadcast is
  // used). In place, what aliases the output is put there.
  std::vector<Bytes> inputs;
};

// Per rank the output's bytes, blocks concatenated; zeros where a custom collective promises
// nothing and nothing was written. Programs are rooted at 0; the caller rotates. InvalidArgument
// when the sizes of `call` do not fit the program; Internal with a trace when the program cannot go
// on (it deadlocks or pairs badly). Avg divides at the end (law L6).
Result<std::vector<Bytes>> execute_reference(const Program& program, const ReferenceCall& call);

}  // namespace mccl
