// The collectives: each names its blocks to a Staging and hands them to the communicator.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "backend.h"

namespace mccl {
namespace {

using c10d::OpType;
using Tensors = std::vector<at::Tensor>;

void check_per_rank(const Tensors& list, int size, const char* what) {
  TORCH_CHECK_VALUE(static_cast<int>(list.size()) == size, "mccl: ", what, " has ", list.size(),
                    " tensors for ", size, " ranks");
}

// The caller's only list, which must have one tensor per rank.
const Tensors& only_list(const std::vector<Tensors>& lists, int size, const char* what) {
  TORCH_CHECK_VALUE(lists.size() == 1, "mccl: ", what, " is one list of tensors, not ",
                    lists.size());
  check_per_rank(lists[0], size, what);
  return lists[0];
}

void check_same_length(size_t outputs, size_t inputs, const char* call) {
  TORCH_CHECK_VALUE(outputs == inputs, "mccl: ", call, " has ", outputs, " outputs and ", inputs,
                    " inputs");
}

void check_share(const char* call, const char* whole, const at::Tensor& large, const char* part,
                 const at::Tensor& small, int size) {
  TORCH_CHECK_VALUE(large.numel() == small.numel() * size, "mccl: the ", whole, " of ", call,
                    " has ", large.numel(), " elements, ", size, " ranks with an ", part, " of ",
                    small.numel(), " need ", small.numel() * size);
}

// One contiguous block cut into equal ones.
template <typename Block>
std::vector<Block> cut_evenly(const Block& whole, int size, DataType dtype) {
  using Byte = std::conditional_t<std::is_same_v<Block, InputBlock>, const std::byte, std::byte>;
  const int64_t count = whole.count / size;
  std::vector<Block> blocks;
  for (int rank = 0; rank < size; ++rank)
    blocks.push_back(
        {static_cast<Byte*>(whole.data) + rank * count * static_cast<int64_t>(dtype_bytes(dtype)),
         count});
  return blocks;
}

// One contiguous block cut after so many rows of dimension 0 each; no splits: evenly.
template <typename Block>
std::vector<Block> cut_rows(const char* what, const at::Tensor& tensor, const Block& whole,
                            const std::vector<int64_t>& splits, int size, DataType dtype) {
  using Byte = std::conditional_t<std::is_same_v<Block, InputBlock>, const std::byte, std::byte>;
  TORCH_CHECK_VALUE(tensor.dim() > 0, "mccl: all_to_all_single's ", what,
                    " is a scalar; it needs rows to share out");
  const int64_t rows = tensor.size(0);
  if (splits.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, "mccl: all_to_all_single's ", what, " has ", rows,
                      " rows, which ", size, " ranks do not divide; pass split sizes");
    return cut_evenly(whole, size, dtype);
  }
  TORCH_CHECK_VALUE(static_cast<int>(splits.size()) == size, "mccl: all_to_all_single has ",
                    splits.size(), " ", what, " split sizes for ", size, " ranks");
  int64_t total = 0;
  for (size_t rank = 0; rank < splits.size(); ++rank) {
    TORCH_CHECK_VALUE(splits[rank] >= 0, "mccl: all_to_all_single's ", what, " split size ",
                      splits[rank], " for rank ", rank, " is negative");
    total += splits[rank];
  }
  TORCH_CHECK_VALUE(total == rows, "mccl: all_to_all_single's ", what, " split sizes [",
                    c10::Join(", ", splits), "] add up to ", total, ", its ", what, " has ", rows,
                    " rows");
  const int64_t row_count = rows == 0 ? 0 : whole.count / rows;
  auto* data = static_cast<Byte*>(whole.data);
  std::vector<Block> blocks;
  for (const int64_t split : splits) {
    blocks.push_back({data, split * row_count});
    data += split * row_count * static_cast<int64_t>(dtype_bytes(dtype));
  }
  return blocks;
}

}  // namespace

Backend::Call Backend::reduce_one(const Title& title, const at::Tensor& tensor,
                                  const Reduction& reduction) const {
  Staging staging =
      stage("all_reduce", tensor.scalar_type(), reduced_elements(tensor.scalar_type(), reduction));
  const auto [input, output] = staging.in_place(tensor, reduction);
  return {title,
          std::move(staging),
          {tensor},
          [input = input, output = output, op = reduction.op](Communicator& communicator,
                                                              DataType dtype, CallOptions call) {
            return communicator.all_reduce(input.data, output.data, output.count, dtype, op,
                                           std::move(call));
          }};
}

Backend::WorkPointer Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "all_reduce");
  if (tensor.is_sparse()) return allreduce_sparse(tensors, options);
  return post(reduce_one({OpType::ALLREDUCE, "mccl:all_reduce", options.timeout, options.asyncOp},
                         tensor, reduction_of(options.reduceOp)));
}

Backend::WorkPointer Backend::allreduce_coalesced(Tensors& tensors,
                                                  const c10d::AllreduceCoalescedOptions& options) {
  const Reduction reduction = reduction_of(options.reduceOp);
  std::vector<Call> calls;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.scalar_type() == tensors[0].scalar_type(),
                      "mccl: the tensors of all_reduce_coalesced are of one dtype; one is ",
                      tensors[0].scalar_type(), ", another ", tensor.scalar_type());
    calls.push_back(reduce_one(
        {OpType::ALLREDUCE_COALESCED, "mccl:all_reduce", options.timeout, options.asyncOp}, tensor,
        reduction));
  }
  return post_all(OpType::ALLREDUCE_COALESCED, std::move(calls));
}

Backend::WorkPointer Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "reduce");
  check_member("reduce's root", options.rootRank);
  const Reduction reduction = reduction_of(options.reduceOp);
  const int root = static_cast<int>(options.rootRank);
  Staging staging =
      stage("reduce", tensor.scalar_type(), reduced_elements(tensor.scalar_type(), reduction));
  staging.check_writable(tensor);  // also where it is not written, or the root would be alone
  InputBlock input;
  OutputBlock output;
  if (root == getRank())
    std::tie(input, output) = staging.in_place(tensor, reduction);
  else
    input = staging.input(tensor, reduction);
  return post(
      {{OpType::REDUCE, "mccl:reduce", options.timeout, options.asyncOp},
       std::move(staging),
       {tensor},
       [=, op = reduction.op](Communicator& communicator, DataType dtype, CallOptions call) {
         return communicator.reduce(input.data, output.data, input.count, dtype, op, root,
                                    std::move(call));
       }});
}

Backend::WorkPointer Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only_tensor(tensors, "broadcast");
  check_member("broadcast's root", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  Staging staging = stage("broadcast", tensor.scalar_type(), moved_elements(tensor.scalar_type()));
  staging.check_writable(tensor);  // also the root's, or the others would wait for it
  OutputBlock block;
  if (root == getRank()) {
    const InputBlock input = staging.input(tensor);
    block = {const_cast<void*>(input.data), input.count};  // is not written
  } else {
    block = staging.output(tensor);
    staging.show(tensor);
  }
  return post({{OpType::BROADCAST, "mccl:broadcast", options.timeout, options.asyncOp},
               std::move(staging),
               {tensor},
               [=](Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.broadcast(block.data, block.count, dtype, root,
                                               std::move(call));
               }});
}

Backend::Call Backend::gather_blocks(const Title& title, const at::Tensor& input,
                                     const Tensors& blocks) const {
  Staging staging = stage("all_gather", input.scalar_type(), moved_elements(input.scalar_type()));
  std::vector<InputBlock> inputs = {staging.input(input)};
  std::vector<OutputBlock> outputs;
  for (const at::Tensor& block : blocks) outputs.push_back(staging.output(block));
  const int64_t own = outputs[static_cast<size_t>(getRank())].count;
  TORCH_CHECK_VALUE(own == inputs[0].count, "mccl: all_gather's own input has ", input.numel(),
                    " elements, its output ", blocks[static_cast<size_t>(getRank())].numel());
  staging.separate(inputs, outputs, 0, getRank());
  return {title, std::move(staging), blocks,
          [input = inputs[0], outputs = std::move(outputs)](Communicator& communicator,
                                                            DataType dtype, CallOptions call) {
            return communicator.all_gather(input.data, outputs, dtype, std::move(call));
          }};
}

Backend::WorkPointer Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                        const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only_tensor(inputs, "all_gather");
  return post(
      gather_blocks({OpType::ALLGATHER, "mccl:all_gather", options.timeout, options.asyncOp}, input,
                    only_list(outputs, getSize(), "all_gather's output")));
}

Backend::Call Backend::gather_into(const Title& title, const at::Tensor& output,
                                   const at::Tensor& input) const {
  check_share("all_gather_into_tensor", "output", output, "input", input, getSize());
  Staging staging =
      stage("all_gather_into_tensor", input.scalar_type(), moved_elements(input.scalar_type()));
  std::vector<InputBlock> inputs = {staging.input(input)};
  std::vector<OutputBlock> outputs = cut_evenly(staging.output(output), getSize(), staging.dtype());
  staging.separate(inputs, outputs, 0, getRank());
  return {title,
          std::move(staging),
          {output},
          [input = inputs[0], outputs = std::move(outputs)](Communicator& communicator,
                                                            DataType dtype, CallOptions call) {
            return communicator.all_gather(input.data, outputs, dtype, std::move(call));
          }};
}

Backend::WorkPointer Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                              const c10d::AllgatherOptions& options) {
  return post(gather_into(
      {OpType::_ALLGATHER_BASE, "mccl:all_gather_into_tensor", options.timeout, options.asyncOp},
      output, input));
}

Backend::WorkPointer Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(static_cast<int>(outputs.size()) == getSize(),
                    "mccl: all_gather_coalesced has output lists of ", outputs.size(), " ranks, ",
                    getSize(), " are needed");
  for (const Tensors& list : outputs)
    check_same_length(list.size(), inputs.size(), "all_gather_coalesced");
  std::vector<Call> calls;
  for (size_t index = 0; index < inputs.size(); ++index) {
    Tensors blocks;
    for (const Tensors& list : outputs) blocks.push_back(list[index]);
    calls.push_back(gather_blocks(
        {OpType::ALLGATHER_COALESCED, "mccl:all_gather", options.timeout, options.asyncOp},
        inputs[index], blocks));
  }
  return post_all(OpType::ALLGATHER_COALESCED, std::move(calls));
}

Backend::WorkPointer Backend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_same_length(outputs.size(), inputs.size(), "all_gather_into_tensor_coalesced");
  std::vector<Call> calls;
  for (size_t index = 0; index < inputs.size(); ++index)
    calls.push_back(gather_into(
        {OpType::_ALLGATHER_BASE, "mccl:all_gather_into_tensor", options.timeout, options.asyncOp},
        outputs[index], inputs[index]));
  return post_all(OpType::COALESCED, std::move(calls));
}

Backend::WorkPointer Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::GatherOptions& options) {
  const at::Tensor& input = only_tensor(inputs, "gather");
  check_member("gather's root", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  Staging staging = stage("gather", input.scalar_type(), moved_elements(input.scalar_type()));
  std::vector<InputBlock> own = {staging.input(input)};
  std::vector<OutputBlock> blocks;
  Tensors results;
  if (root == getRank()) {
    results = only_list(outputs, getSize(), "gather's output");
    for (const at::Tensor& output : results) blocks.push_back(staging.output(output));
    staging.separate(own, blocks, 0, root);
  } else {
    TORCH_CHECK_VALUE(outputs.empty() || outputs[0].empty(),
                      "mccl: gather's output is for its "
                      "root, group rank ",
                      root, "; pass none on group rank ", getRank());
  }
  return post({{OpType::GATHER, "mccl:gather", options.timeout, options.asyncOp},
               std::move(staging),
               std::move(results),
               [input = own[0], blocks = std::move(blocks), root](
                   Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.gather(input.data, input.count, blocks, dtype, root,
                                            std::move(call));
               }});
}

Backend::WorkPointer Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                      const c10d::ScatterOptions& options) {
  const at::Tensor& output = only_tensor(outputs, "scatter");
  check_member("scatter's root", options.rootRank);
  const int root = static_cast<int>(options.rootRank);
  Staging staging = stage("scatter", output.scalar_type(), moved_elements(output.scalar_type()));
  const OutputBlock own = staging.output(output);
  std::vector<InputBlock> blocks;
  if (root == getRank()) {
    for (const at::Tensor& input : only_list(inputs, getSize(), "scatter's input"))
      blocks.push_back(staging.input(input));
    staging.separate(blocks, {own}, root, 0);
  } else {
    TORCH_CHECK_VALUE(inputs.empty() || inputs[0].empty(),
                      "mccl: scatter's input is for its "
                      "root, group rank ",
                      root, "; pass none on group rank ", getRank());
  }
  return post({{OpType::SCATTER, "mccl:scatter", options.timeout, options.asyncOp},
               std::move(staging),
               {output},
               [own, blocks = std::move(blocks), root](Communicator& communicator, DataType dtype,
                                                       CallOptions call) {
                 return communicator.scatter(blocks, own.data, own.count, dtype, root,
                                             std::move(call));
               }});
}

Backend::WorkPointer Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                             const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only_tensor(outputs, "reduce_scatter");
  const Tensors& list = only_list(inputs, getSize(), "reduce_scatter's input");
  const Reduction reduction = reduction_of(options.reduceOp);
  Staging staging = stage("reduce_scatter", output.scalar_type(),
                          reduced_elements(output.scalar_type(), reduction));
  const OutputBlock own = staging.output(output);
  std::vector<InputBlock> blocks;
  for (const at::Tensor& input : list) blocks.push_back(staging.input(input, reduction));
  TORCH_CHECK_VALUE(blocks[static_cast<size_t>(getRank())].count == own.count,
                    "mccl: reduce_scatter's own output has ", output.numel(),
                    " elements, its input ", list[static_cast<size_t>(getRank())].numel());
  staging.separate(blocks, {own}, getRank(), 0);
  return post({{OpType::REDUCE_SCATTER, "mccl:reduce_scatter", options.timeout, options.asyncOp},
               std::move(staging),
               {output},
               [own, blocks = std::move(blocks), op = reduction.op](
                   Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.reduce_scatter(blocks, own.data, dtype, op, std::move(call));
               }});
}

Backend::Call Backend::scatter_sum(const Title& title, const at::Tensor& output,
                                   const at::Tensor& input, const Reduction& reduction) const {
  check_share("reduce_scatter_tensor", "input", input, "output", output, getSize());
  Staging staging = stage("reduce_scatter_tensor", output.scalar_type(),
                          reduced_elements(output.scalar_type(), reduction));
  const OutputBlock own = staging.output(output);
  std::vector<InputBlock> blocks =
      cut_evenly(staging.input(input, reduction), getSize(), staging.dtype());
  staging.separate(blocks, {own}, getRank(), 0);
  return {title,
          std::move(staging),
          {output},
          [own, blocks = std::move(blocks), op = reduction.op](Communicator& communicator,
                                                               DataType dtype, CallOptions call) {
            return communicator.reduce_scatter(blocks, own.data, dtype, op, std::move(call));
          }};
}

Backend::WorkPointer Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                   const c10d::ReduceScatterOptions& options) {
  return post(scatter_sum({OpType::_REDUCE_SCATTER_BASE, "mccl:reduce_scatter_tensor",
                           options.timeout, options.asyncOp},
                          output, input, reduction_of(options.reduceOp)));
}

Backend::WorkPointer Backend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  const Reduction reduction = reduction_of(options.reduceOp);
  check_same_length(outputs.size(), inputs.size(), "reduce_scatter_tensor_coalesced");
  std::vector<Call> calls;
  for (size_t index = 0; index < inputs.size(); ++index)
    calls.push_back(scatter_sum({OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                                 "mccl:reduce_scatter_tensor", options.timeout, options.asyncOp},
                                outputs[index], inputs[index], reduction));
  return post_all(OpType::REDUCE_SCATTER_TENSOR_COALESCED, std::move(calls));
}

Backend::WorkPointer Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                            Splits& output_splits, Splits& input_splits,
                                            const c10d::AllToAllOptions& options) {
  Staging staging =
      stage("all_to_all_single", input.scalar_type(), moved_elements(input.scalar_type()));
  std::vector<InputBlock> inputs =
      cut_rows("input", input, staging.input(input), input_splits, getSize(), staging.dtype());
  std::vector<OutputBlock> outputs =
      cut_rows("output", output, staging.output(output), output_splits, getSize(), staging.dtype());
  staging.separate(inputs, outputs, -1, -1);
  return post({{OpType::ALLTOALL_BASE, "mccl:all_to_all_single", options.timeout, options.asyncOp},
               std::move(staging),
               {output},
               [inputs = std::move(inputs), outputs = std::move(outputs)](
                   Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.all_to_all(inputs, outputs, dtype, std::move(call));
               }});
}

Backend::WorkPointer Backend::alltoall(Tensors& outputs, Tensors& inputs,
                                       const c10d::AllToAllOptions& options) {
  check_per_rank(inputs, getSize(), "all_to_all's input");
  check_per_rank(outputs, getSize(), "all_to_all's output");
  Staging staging =
      stage("all_to_all", inputs[0].scalar_type(), moved_elements(inputs[0].scalar_type()));
  std::vector<InputBlock> sent;
  for (const at::Tensor& input : inputs) sent.push_back(staging.input(input));
  std::vector<OutputBlock> received;
  for (const at::Tensor& output : outputs) received.push_back(staging.output(output));
  staging.separate(sent, received, -1, -1);
  return post({{OpType::ALLTOALL, "mccl:all_to_all", options.timeout, options.asyncOp},
               std::move(staging),
               outputs,
               [sent = std::move(sent), received = std::move(received)](
                   Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.all_to_all(sent, received, dtype, std::move(call));
               }});
}

namespace {

// Elements of a chunk, from tensors that hold whole chunks; ValueError names both numbers.
int64_t chunk_elements_of(const std::string& program, std::pair<int, int> chunks,
                          const at::Tensor& input, const at::Tensor& output,
                          std::optional<int64_t> given) {
  int64_t elements = given.value_or(-1);
  const auto look_at = [&](const char* what, int count, int64_t found) {
    if (elements < 0 && count > 0) {
      TORCH_CHECK_VALUE(found % count == 0, "mccl: ", program, ": ", what, " has ", found,
                        " elements, which are not ", count, " equal chunks");
      elements = found / count;
    }
    TORCH_CHECK_VALUE(elements < 0 || found == elements * count, "mccl: ", program, ": ", what,
                      " has ", found, " elements; this rank has ", count, " chunks of ", elements,
                      " there");
  };
  look_at("the input", chunks.first, input.numel());
  look_at("the output", chunks.second, output.numel());
  TORCH_CHECK_VALUE(elements >= 0, "mccl: ", program,
                    ": this rank has no chunks; say chunk_elements, as the others have it");
  return elements;
}

}  // namespace

Backend::WorkPointer Backend::custom(const std::string& program, const at::Tensor& input,
                                     at::Tensor& output, ReduceOp op, bool is_async,
                                     std::optional<int64_t> chunk_elements) {
  TORCH_CHECK_VALUE(input.scalar_type() == output.scalar_type(),
                    "mccl: the input of a custom collective is ", input.scalar_type(),
                    ", its output ", output.scalar_type(), "; they are of one dtype");
  const Result<std::pair<int, int>> chunks =
      check_living().communicator->custom_chunk_counts(program);
  throw_unless_ok(chunks.status());
  const int64_t elements =
      chunk_elements_of(program, chunks.value(), input, output, chunk_elements);
  const Elements parts = reduced_elements(input.scalar_type(), {.op = op});
  Staging staging = stage("custom_collective", input.scalar_type(), parts);
  std::vector<InputBlock> inputs = {staging.input(input)};
  const std::vector<OutputBlock> outputs = {staging.output(output)};
  staging.separate(inputs, outputs, -1, -1);
  return post({{OpType::UNKNOWN, "mccl:custom", c10d::kUnsetTimeout, is_async},
               std::move(staging),
               {output},
               [=, from = inputs[0].data, to = outputs[0].data, count = elements * parts.parts](
                   Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.custom(program, from, to, count, dtype, op, std::move(call));
               }});
}

Backend::WorkPointer Backend::barrier(const c10d::BarrierOptions& options) {
  return post({{OpType::BARRIER, "mccl:barrier", options.timeout, options.asyncOp},
               stage("barrier", at::kByte, {DataType::UInt8}),
               {},
               [](Communicator& communicator, DataType, CallOptions call) {
                 return communicator.barrier(std::move(call));
               }});
}

}  // namespace mccl
