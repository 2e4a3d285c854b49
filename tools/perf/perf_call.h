// One collective on two buffers: how long they are, which memory a call names in place and out of
// place, what goes in and what must come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "mccl/communicator.h"
#include "perf/perf_options.h"
#include "perf/test_data.h"

namespace mccl {

// Element counts by nccl-tests' rules: where every rank has a block, blocks are rounded down to a
// multiple of 16 bytes.
struct CallLayout {
  int64_t count = 0;        // of a rank's block, or of the whole where there is one
  int64_t input_count = 0;  // of the longer buffers of a rank
  int64_t output_count = 0;
  int64_t bytes = 0;  // S
  bool operator==(const CallLayout&) const = default;
};
CallLayout layout_of(Collective collective, int64_t bytes, int rank_count, DataType dtype);

bool can_be_in_place(Collective collective);

struct CallShape {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  int rank = 0;
  int rank_count = 1;
  bool is_in_place = false;
  CallLayout layout;
};

// The calls of one size. The buffers are the owner's, at least as long as the layout says.
class PerfCall {
 public:
  PerfCall(const CallShape& shape, std::byte* input, std::byte* output);

  // New inputs, and outputs that no result has, of the iteration. Between calls alone.
  void prepare(int64_t iteration);
  // Does not block, but for root's copy of an out-of-place broadcast.
  Result<std::shared_ptr<Work>> post(Communicator& communicator, const CallOptions& options);
  // Elements of this rank's result that are not those of the iteration prepared last.
  int64_t count_wrong_elements() const;

 private:
  std::byte* block(std::byte* data, int rank) const;
  std::vector<OutputBlock> output_blocks() const;
  std::vector<InputBlock> input_blocks() const;
  bool is_root() const { return shape_.rank == shape_.root; }
  Pattern pattern_of(int rank) const;

  CallShape shape_;
  PatternKey key_;
  std::byte* input_;   // what the call reads
  std::byte* output_;  // what it writes
  std::byte* blocks_;  // all blocks of all ranks, where the collective has such a buffer
};

}  // namespace mccl
