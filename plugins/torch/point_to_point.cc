// Sends, receives, and the barrier that is made of them.
#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backend.h"

namespace mccl {
namespace {

using c10d::OpType;

// Tags of torch are ints; ours lie beside them.
constexpr int64_t kArrivalTag = int64_t{1} << 40;
constexpr int64_t kDepartureTag = kArrivalTag + 1;

}  // namespace

Backend::WorkPointer Backend::send(Tensors& tensors, int destination, int tag) {
  const at::Tensor& tensor = only_tensor(tensors, "send");
  check_peer("send's destination", destination);
  Staging staging = stage("send", tensor.scalar_type(), moved_elements(tensor.scalar_type()));
  const InputBlock block = staging.input(tensor);
  return post({{OpType::SEND, "mccl:send", c10d::kUnsetTimeout, true},
               std::move(staging),
               {tensor},
               [=](Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.send(block.data, block.count, dtype, destination, tag,
                                          std::move(call));
               }});
}

Backend::WorkPointer Backend::recv(Tensors& tensors, int source, int tag) {
  const at::Tensor& tensor = only_tensor(tensors, "recv");
  check_peer("recv's source", source);
  Staging staging = stage("recv", tensor.scalar_type(), moved_elements(tensor.scalar_type()));
  const OutputBlock block = staging.output(tensor);
  staging.show(tensor);
  return post({{OpType::RECV, "mccl:recv", c10d::kUnsetTimeout, true},
               std::move(staging),
               {tensor},
               [=](Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.recv(block.data, block.count, dtype, source, tag,
                                          std::move(call));
               }});
}

Backend::WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  const at::Tensor& tensor = only_tensor(tensors, "recv");
  Staging staging = stage("recv", tensor.scalar_type(), moved_elements(tensor.scalar_type()));
  const OutputBlock block = staging.output(tensor);
  staging.show(tensor);
  return post({{OpType::RECVANYSOURCE, "mccl:recvAnySource", c10d::kUnsetTimeout, true},
               std::move(staging),
               {tensor},
               [=](Communicator& communicator, DataType dtype, CallOptions call) {
                 return communicator.recv_any_source(block.data, block.count, dtype, tag,
                                                     std::move(call));
               }});
}

void Backend::monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) {
  const Living found = check_living();
  const int64_t limit = limit_of(options.timeout);
  // Each message owns its byte: an error or a signal ends this call before the messages.
  const auto post_byte = [&](bool is_send, int peer, int64_t tag) {
    const auto byte = std::make_shared<std::byte>();
    CallOptions call;
    call.timeout_ns = limit;
    call.will_wait = true;
    call.on_complete = [byte](const Status&) {};
    Communicator& communicator = *found.communicator;
    Result<std::shared_ptr<mccl::Work>> posted =
        is_send ? communicator.send(byte.get(), 1, DataType::UInt8, peer, tag, std::move(call))
                : communicator.recv(byte.get(), 1, DataType::UInt8, peer, tag, std::move(call));
    throw_unless_ok(posted.status());
    return std::move(posted).value();
  };
  const auto wait_for = [&](mccl::Work& work) {
    std::exception_ptr interrupt;
    const Status status = work.wait(-1, [&] {
      interrupt = hooks_.take_interrupt();
      return interrupt != nullptr;
    });
    if (interrupt != nullptr) std::rethrow_exception(interrupt);
    return status;
  };
  if (getRank() != 0) {
    throw_unless_ok(wait_for(*post_byte(true, 0, kArrivalTag)));
    throw_unless_ok(wait_for(*post_byte(false, 0, kDepartureTag)));
    return;
  }
  // All limits run from now on; the first to pass ends the group, and with it what is still open.
  std::vector<std::shared_ptr<mccl::Work>> arrivals;
  for (int rank = 1; rank < getSize(); ++rank)
    arrivals.push_back(post_byte(false, rank, kArrivalTag));
  std::vector<int> missing;
  Status cause;
  for (size_t index = 0; index < arrivals.size(); ++index) {
    const Status status = wait_for(*arrivals[index]);
    if (status.is_ok()) continue;
    // Another rank may be lost while this one is merely late.
    if (status.code() != StatusCode::Timeout) throw_unless_ok(status);
    if (cause.is_ok()) cause = status;
    if (missing.empty() || waits_for_all) missing.push_back(static_cast<int>(index) + 1);
  }
  TORCH_CHECK_WITH(DistBackendError, missing.empty(),
                   "mccl: Rank 0 timed out in monitoredBarrier: rank",
                   missing.size() == 1 ? " " : "s ", c10::Join(", ", missing),
                   " did not reach it within ", limit / 1'000'000, " ms: ", cause.message());
  for (int rank = 1; rank < getSize(); ++rank)
    throw_unless_ok(wait_for(*post_byte(true, rank, kDepartureTag)));
}

}  // namespace mccl
