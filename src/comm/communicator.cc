// The public face: shapes the caller's arguments into a Call.
#include "mccl/communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/communicator_core.h"

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
  Call call;
  call.collective = Collective::AllReduce;
  call.dtype = dtype;
  call.op = op;
  call.buffers.input = {block_of(input, count)};
  call.buffers.output = {block_of(output, count)};
  call.count = call.count_max = count;
  call.will_wait = options.will_wait;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::all_gather(const void* input,
                                                       std::vector<OutputBlock> blocks,
                                                       DataType dtype, CallOptions options) {
  if (static_cast<int>(blocks.size()) != rank_count())
    return Status(
        StatusCode::InvalidArgument,
        fmt::format("all_gather has {} output blocks for {} ranks; one per rank is needed",
                    blocks.size(), rank_count()));
  Call call;
  call.collective = Collective::AllGather;
  call.dtype = dtype;
  for (const OutputBlock& block : blocks) {
    MCCL_RETURN_IF_ERROR(check_count(block.count));
    call.buffers.output.push_back(block_of(block.data, block.count));
    call.count += block.count;
    call.count_max = std::max(call.count_max, block.count);
  }
  call.buffers.input = {block_of(input, blocks[static_cast<size_t>(rank())].count)};
  call.will_wait = options.will_wait;
  return core_->post(std::move(call), std::move(options));
}

Result<std::shared_ptr<Work>> Communicator::broadcast(void* data, int64_t count, DataType dtype,
                                                      int root, CallOptions options) {
  MCCL_RETURN_IF_ERROR(check_count(count));
  if (root < 0 || root >= rank_count())
    return Status(StatusCode::InvalidArgument,
                  fmt::format("root {} is not a rank of this communicator, which has {} ranks",
                              root, rank_count()));
  Call call;
  call.collective = Collective::Broadcast;
  call.dtype = dtype;
  call.root = root;
  call.buffers.input = {block_of(data, count)};
  call.buffers.output = {block_of(data, count)};
  call.count = call.count_max = count;
  call.will_wait = options.will_wait;
  return core_->post(std::move(call), std::move(options));
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
  call.will_wait = options.will_wait;
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
  return core_->explain(collective, bytes);
}
std::string Communicator::start_up_line() const {
  return core_->start_up_line();
}

}  // namespace mccl
