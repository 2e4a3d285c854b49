#include "perf/perf_call.h"

#include <cstring>

#include "base/check.h"
#include "ir/collective.h"

namespace mccl {
namespace {

constexpr int64_t kBlockBytes = 16;
// No result of a pattern consists of it.
constexpr int kPoison = 0xa5;

// The longer buffer of a rank holds a block of every rank.
bool has_output_blocks(Collective collective) {
  return collective == Collective::AllGather || collective == Collective::Gather ||
         collective == Collective::AllToAll;
}

bool has_input_blocks(Collective collective) {
  return collective == Collective::ReduceScatter || collective == Collective::Scatter ||
         collective == Collective::AllToAll;
}

int64_t width_of(DataType dtype) {
  return static_cast<int64_t>(dtype_bytes(dtype));
}

}  // namespace

CallLayout layout_of(Collective collective, int64_t bytes, int rank_count, DataType dtype) {
  const int64_t width = width_of(dtype);
  const bool is_blocked = has_input_blocks(collective) || has_output_blocks(collective);
  CallLayout layout{.count = bytes / width};
  if (is_blocked) {
    const int64_t unit = std::max<int64_t>(1, kBlockBytes / width);
    layout.count = layout.count / rank_count / unit * unit;
  }
  layout.input_count = layout.count * (has_input_blocks(collective) ? rank_count : 1);
  layout.output_count = layout.count * (has_output_blocks(collective) ? rank_count : 1);
  layout.bytes = std::max(layout.input_count, layout.output_count) * width;
  return layout;
}

bool can_be_in_place(Collective collective) {
  return collective != Collective::AllToAll;
}

PerfCall::PerfCall(const CallShape& shape, std::byte* input, std::byte* output)
    : shape_(shape),
      key_{.dtype = shape.dtype,
           .op = shape.op,
           .is_reduced = is_reducing(shape.collective),
           .rank_count = shape.rank_count},
      input_(input),
      output_(output),
      blocks_(has_output_blocks(shape.collective) ? output : input) {
  MCCL_CHECK(!shape.is_in_place || can_be_in_place(shape.collective));
  if (!shape.is_in_place) return;
  if (has_output_blocks(shape.collective))
    input_ = block(output, shape.rank);
  else if (has_input_blocks(shape.collective))
    output_ = block(input, shape.rank);
  else
    output_ = input;
}

std::byte* PerfCall::block(std::byte* data, int rank) const {
  return data + int64_t{rank} * shape_.layout.count * width_of(shape_.dtype);
}

Pattern PerfCall::pattern_of(int rank) const {
  return make_pattern(key_, rank);
}

void PerfCall::prepare(int64_t iteration) {
  key_.iteration = iteration;
  if (!shape_.is_in_place || has_output_blocks(shape_.collective)) {
    std::byte* const whole = has_output_blocks(shape_.collective) ? blocks_ : output_;
    std::memset(whole, kPoison,
                static_cast<size_t>(shape_.layout.output_count * width_of(shape_.dtype)));
  }
  fill_pattern(pattern_of(shape_.rank), 0, shape_.layout.input_count, input_);
}

std::vector<OutputBlock> PerfCall::output_blocks() const {
  std::vector<OutputBlock> blocks;
  for (int rank = 0; rank < shape_.rank_count; ++rank)
    blocks.push_back({.data = block(blocks_, rank), .count = shape_.layout.count});
  return blocks;
}

std::vector<InputBlock> PerfCall::input_blocks() const {
  std::vector<InputBlock> blocks;
  for (int rank = 0; rank < shape_.rank_count; ++rank)
    blocks.push_back({.data = block(input_, rank), .count = shape_.layout.count});
  return blocks;
}

Result<std::shared_ptr<Work>> PerfCall::post(Communicator& communicator,
                                             const CallOptions& options) {
  const CallShape& shape = shape_;
  const int64_t count = shape.layout.count;
  switch (shape.collective) {
    case Collective::AllReduce:
      return communicator.all_reduce(input_, output_, count, shape.dtype, shape.op, options);
    case Collective::Reduce:
      return communicator.reduce(input_, output_, count, shape.dtype, shape.op, shape.root,
                                 options);
    case Collective::Broadcast:
      if (is_root() && output_ != input_)
        std::memcpy(output_, input_, static_cast<size_t>(shape.layout.bytes));
      return communicator.broadcast(output_, count, shape.dtype, shape.root, options);
    case Collective::AllGather:
      return communicator.all_gather(input_, output_blocks(), shape.dtype, options);
    case Collective::Gather:
      return communicator.gather(input_, count,
                                 is_root() ? output_blocks() : std::vector<OutputBlock>(),
                                 shape.dtype, shape.root, options);
    case Collective::ReduceScatter:
      return communicator.reduce_scatter(input_blocks(), output_, shape.dtype, shape.op, options);
    case Collective::Scatter:
      return communicator.scatter(is_root() ? input_blocks() : std::vector<InputBlock>(), output_,
                                  count, shape.dtype, shape.root, options);
    case Collective::AllToAll:
      return communicator.all_to_all(input_blocks(), output_blocks(), shape.dtype, options);
    case Collective::Custom:
      break;
  }
  return Status(StatusCode::Unsupported, "custom collectives have no test data");
}

int64_t PerfCall::count_wrong_elements() const {
  const int64_t count = shape_.layout.count;
  const int64_t own_index = int64_t{shape_.rank} * count;
  int64_t wrong = 0;
  switch (shape_.collective) {
    case Collective::AllReduce:
      return count_wrong(make_folded_pattern(key_), 0, count, output_);
    case Collective::Reduce:
      return is_root() ? count_wrong(make_folded_pattern(key_), 0, count, output_) : 0;
    case Collective::Broadcast:
      return count_wrong(pattern_of(shape_.root), 0, count, output_);
    case Collective::ReduceScatter:
      return count_wrong(make_folded_pattern(key_), own_index, count, output_);
    case Collective::Scatter:
      return count_wrong(pattern_of(shape_.root), own_index, count, output_);
    case Collective::AllGather:
    case Collective::Gather:
      if (shape_.collective == Collective::Gather && !is_root()) return 0;
      for (int rank = 0; rank < shape_.rank_count; ++rank)
        wrong += count_wrong(pattern_of(rank), 0, count, block(blocks_, rank));
      return wrong;
    case Collective::AllToAll:
      for (int rank = 0; rank < shape_.rank_count; ++rank)
        wrong += count_wrong(pattern_of(rank), own_index, count, block(blocks_, rank));
      return wrong;
    case Collective::Custom:
      break;
  }
  return wrong;
}

}  // namespace mccl
