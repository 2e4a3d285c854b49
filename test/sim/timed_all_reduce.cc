#include "sim/timed_all_reduce.h"

#include <gtest/gtest.h>

#include <memory>

namespace mccl {
namespace {

// Small enough that sums over thousands of ranks are exact.
float element(size_t rank, size_t index) {
  return static_cast<float>((index + rank) % 1021);
}

}  // namespace

SimGroupOptions paper_fleet(const std::string& algorithm) {
  return {
      .settings = {{"MCCL_PROFILE", "paper"}, {"MCCL_ALGO", algorithm}, {"MCCL_LOG", "warning"}},
      .portions = std::nullopt,
      .prover = nullptr};
}

TimeNs time_all_reduce(SimGroup& group, Tensors& tensors, int64_t bytes, size_t operation_count) {
  const size_t count_each = static_cast<size_t>(bytes) / sizeof(float);
  const size_t count = count_each * operation_count;
  for (size_t rank = 0; rank < tensors.size(); ++rank) {
    tensors[rank].resize(count);
    for (size_t index = 0; index < count; ++index) tensors[rank][index] = element(rank, index);
  }
  const TimeNs begin = group.world().clock().now();
  std::vector<std::shared_ptr<Work>> works;
  for (size_t operation = 0; operation < operation_count; ++operation)
    for (int rank = 0; rank < group.rank_count(); ++rank) {
      float* data = tensors[static_cast<size_t>(rank)].data() + operation * count_each;
      Result<std::shared_ptr<Work>> work = group.communicator(rank).all_reduce(
          data, data, static_cast<int64_t>(count_each), DataType::Float32, ReduceOp::Sum);
      if (!work.is_ok()) {
        ADD_FAILURE() << work.status().to_string();
        return 0;
      }
      works.push_back(std::move(work).value());
    }
  const bool is_done = group.run(works);
  const TimeNs time_ns = group.world().clock().now() - begin;
  if (!is_done) {
    ADD_FAILURE() << "stuck";
    return 0;
  }
  for (const std::shared_ptr<Work>& work : works)
    if (!work->status().is_ok()) {
      ADD_FAILURE() << work->status().to_string();
      return 0;
    }
  return time_ns;
}

std::string judge_sums(const Tensors& tensors) {
  std::vector<float> sums(tensors[0].size(), 0);
  for (size_t rank = 0; rank < tensors.size(); ++rank)
    for (size_t index = 0; index < sums.size(); ++index) sums[index] += element(rank, index);
  for (size_t rank = 0; rank < tensors.size(); ++rank)
    for (size_t index = 0; index < sums.size(); ++index)
      if (tensors[rank][index] != sums[index])
        return "element " + std::to_string(index) + " of rank " + std::to_string(rank) + " is " +
               std::to_string(tensors[rank][index]) + ", not " + std::to_string(sums[index]);
  return {};
}

}  // namespace mccl
