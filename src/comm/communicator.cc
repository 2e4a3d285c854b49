// The public face: shapes the caller's arguments into a Call.
#include "mccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator_core.h"
#include "ir/collective.h"

namespace mccl {
namespace {

Status check_count(int64_t count) {
  if (count >= 0) return Status::ok();
  return Status(StatusCode::InvalidArgument, fmt::format("count {} is negative", count));
}

// The engine writes outputs and, by the verifier's proof, never inputs; one type holds both.
Block block_of(const void* data, int64_t count) {
  return {static_cast<std::byte*>(const_cast<void*>(data)), count};
}

Status check_root(int root, int rank_count) {
  if (root >= 0 && root < rank_count) return Status::ok();
  return Status(StatusCode::InvalidArgument,
                fmt::format("root {} is not a rank of this communicator, which has {} ranks", root,
                            rank_count));
}

// Appends one block per rank, the root's first: programs are rooted at rank 0.
template <typename UserBlock>
Status add_blocks(const char* what, const std::vector<UserBlock>& blocks, int rank_count, int root,
                  std::vector<Block>& to) {
  if (static_cast<int>(blocks.size()) != rank_count)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("{} has {} blocks for {} ranks; one per rank is needed", what,
                              blocks.size(), rank_count));
  for (int index = 0; index < rank_count; ++index) {
    const UserBlock& block = blocks[static_cast<size_t>((index + root) % rank_count)];
    MCCL_RETURN_IF_ERROR(check_count(block.count));
    to.push_back(block_of(block.data, block.count));
  }
  return Status::ok();
}

void measure(const std::vector<Block>& blocks, Call& call) {
  for (const Block& block : blocks) {
    call.count += block.count;
    call.count_max = std::max(call.count_max, block.count);
  }
}

// Of a gather's outputs or a scatter's inputs: all as long as what the other ranks name.
template <typename UserBlock>
Status check_equal(const char* what, const std::vector<UserBlock>& blocks, int64_t count) {
  for (size_t rank = 0; rank < blocks.size(); ++rank)
    if (blocks[rank].count != count)
      return Status(StatusCode::InvalidArgument,
                    fmt::format("{} has {} elements for rank {}; every rank's share is {}", what,
                                blocks[rank].count, rank, count));
  return Status::ok();
}

}  // namespace

Communicator::Communicator(std::unique_ptr<CommunicatorCore> core) : core_(std::move(core)) {}

Communicator::~Communicator() = default;

Result<std::unique_ptr<Communicator>> Communicator::create(Endpoint& endpoint, Store& store,
                                                           int rank, int rank_count,
                                                           const CommunicatorOptions& options) {
  Result<CommunicatorCore::Rendezvous> rendezvous =
      CommunicatorCore::publish(endpoint.core(), store, rank, rank_count, options);
  if (!rendezvous.is_ok()) return rendezvous.status();
  Result<std::unique_ptr<CommunicatorCore>> core = CommunicatorCore::finish(rendezvous.value());
  if (!core.is_ok()) return core.status();
  return std::make_unique<Communicator>(std::move(core).value());
}

int Communicator::rank() const {
  return core_->rank();
}
int Communicator::rank_count() const {
  return core_->rank_count();
}

Result<std::shared_ptr<Work>> Communicator::all_reduce(const void* input, void* output,
                                                       int64_t count, DataType dtype, ReduceOp op,
                                                       CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  Call call{.collective = Collective::AllReduce, .dtype = dtype, .op = op};
  call.buffers.input = {block_of(input, count)};
  call.buffers.output = {block_of(output, count)};
  call.count = call.count_max = count;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::all_gather(const void* input,
                                                       std::vector<OutputBlock> blocks,
                                                       DataType dtype, CallOptions options) {
  Call call{.collective = Collective::AllGather, .dtype = dtype};
  MCCL_RETURN_IF_ERROR(
      add_blocks("all_gather's output", blocks, rank_count(), 0, call.buffers.output));
  measure(call.buffers.output, call);
  call.buffers.input = {block_of(input, blocks[static_cast<size_t>(rank())].count)};
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::broadcast(void* data, int64_t count, DataType dtype,
                                                      int root, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_root(root, rank_count()));
  Call call{.collective = Collective::Broadcast, .dtype = dtype, .root = root};
  call.buffers.input = {block_of(data, count)};
  call.buffers.output = {block_of(data, count)};
  call.count = call.count_max = count;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::reduce_scatter(std::vector<InputBlock> blocks,
                                                           void* output, DataType dtype,
                                                           ReduceOp op, CallOptions options) {
  Call call{.collective = Collective::ReduceScatter, .dtype = dtype, .op = op};
  MCCL_RETURN_IF_ERROR(
      add_blocks("reduce_scatter's input", blocks, rank_count(), 0, call.buffers.input));
  measure(call.buffers.input, call);
  call.buffers.output = {block_of(output, blocks[static_cast<size_t>(rank())].count)};
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::reduce(const void* input, void* output, int64_t count,
                                                   DataType dtype, ReduceOp op, int root,
                                                   CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_root(root, rank_count()));
  Call call{.collective = Collective::Reduce, .dtype = dtype, .op = op, .root = root};
  call.buffers.input = {block_of(input, count)};
  if (rank() == root) call.buffers.output = {block_of(output, count)};
  call.count = call.count_max = count;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::gather(const void* input, int64_t count,
                                                   std::vector<OutputBlock> blocks, DataType dtype,
                                                   int root, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_root(root, rank_count()));
  Call call{.collective = Collective::Gather, .dtype = dtype, .root = root};
  call.buffers.input = {block_of(input, count)};
  if (rank() == root) {
    MCCL_RETURN_IF_ERROR(
        add_blocks("gather's output", blocks, rank_count(), root, call.buffers.output));
    MCCL_RETURN_IF_ERROR(check_equal("gather's output", blocks, count));
  }
  call.count = count * rank_count();
  call.count_max = count;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::scatter(std::vector<InputBlock> blocks, void* output,
                                                    int64_t count, DataType dtype, int root,
                                                    CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_root(root, rank_count()));
  Call call{.collective = Collective::Scatter, .dtype = dtype, .root = root};
  call.buffers.output = {block_of(output, count)};
  if (rank() == root) {
    MCCL_RETURN_IF_ERROR(
        add_blocks("scatter's input", blocks, rank_count(), root, call.buffers.input));
    MCCL_RETURN_IF_ERROR(check_equal("scatter's input", blocks, count));
  }
  call.count = count * rank_count();
  call.count_max = count;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::all_to_all(std::vector<InputBlock> inputs,
                                                       std::vector<OutputBlock> outputs,
                                                       DataType dtype, CallOptions options) {
  Call call{.collective = Collective::AllToAll, .dtype = dtype};
  MCCL_RETURN_IF_ERROR(
      add_blocks("all_to_all's input", inputs, rank_count(), 0, call.buffers.input));
  MCCL_RETURN_IF_ERROR(
      add_blocks("all_to_all's output", outputs, rank_count(), 0, call.buffers.output));
  const size_t own = static_cast<size_t>(rank());
  if (inputs[own].count != outputs[own].count)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("rank {} sends itself {} elements and has room for {}", rank(),
                              inputs[own].count, outputs[own].count));
  measure(call.buffers.input, call);
  measure(call.buffers.output, call);
  call.count = 0;
  return core_->post(std::move(call), std::move(options));
}

namespace {

MessageSpec message_of(const void* data, int64_t count, DataType dtype, int64_t tag) {
  const Block block = block_of(data, count);
  MessageSpec message;
  message.data = block.data;
  message.count = block.count;
  message.dtype = dtype;
  message.tag = tag;
  return message;
}

Status check_peer(const char* call, int peer, int rank, int rank_count) {
  if (peer == rank)
    return Status(
        StatusCode::InvalidArgument,
        fmt::format("{} between rank {} and itself is not supported; copy instead", call, rank));
  if (peer >= 0 && peer < rank_count) return Status::ok();
  return Status(StatusCode::InvalidArgument,
                fmt::format("{} with rank {}: this communicator has ranks 0 to {}", call, peer,
                            rank_count - 1));
}

}  // namespace

Result<std::shared_ptr<Work>> Communicator::send(const void* data, int64_t count, DataType dtype,
                                                 int peer, int64_t tag, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_peer("send", peer, rank(), rank_count()));
  return core_->post_send(peer, message_of(data, count, dtype, tag), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::recv(void* data, int64_t count, DataType dtype,
                                                 int peer, int64_t tag, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  MCCL_RETURN_IF_ERROR(check_peer("recv", peer, rank(), rank_count()));
  return core_->post_receive(peer, message_of(data, count, dtype, tag), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::recv_any_source(void* data, int64_t count,
                                                            DataType dtype, int64_t tag,
                                                            CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  return core_->post_receive(-1, message_of(data, count, dtype, tag), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::barrier(CallOptions options) {
  // An all_reduce of one element; the element lives as long as the work.
  auto cell = std::make_shared<int64_t>(0);
  std::function<void(const Status&)> on_complete = std::move(options.on_complete);
  options.on_complete = [cell, on_complete = std::move(on_complete)](const Status& status) {
    if (on_complete) on_complete(status);
  };
  Call call;
  call.dtype = DataType::Int64;
  call.buffers.input = call.buffers.output = {block_of(cell.get(), 1)};
  call.count = call.count_max = 1;
  call.waits_for_earlier = true;
  return core_->post(std::move(call), std::move(options));
}

void Communicator::abort(const std::string& reason) {
  core_->abort(reason);
}
CommunicatorStats Communicator::stats() const {
  return core_->stats();
}
std::string Communicator::explain(Collective collective, int64_t bytes) const {
  return core_->explain(collective, bytes, std::nullopt);
}
std::string Communicator::explain(Collective collective, int64_t bytes,
                                  const CallWords& words) const {
  const int64_t blocks = size_block_count(collective, rank_count());
  return core_->explain(
      collective, bytes,
      CallFacts{.dtype = words.dtype,
                .op = words.op,
                .block_count = bytes / static_cast<int64_t>(dtype_bytes(words.dtype)) / blocks,
                .is_in_place = words.is_in_place});
}
std::string Communicator::start_up_line() const {
  return core_->start_up_line();
}

}  // namespace mccl
