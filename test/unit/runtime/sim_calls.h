// Shorthands for calls of simulated ranks on vectors of floats.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/sim_group.h"

namespace mccl {

using Works = std::vector<std::shared_ptr<Work>>;

inline SimGroupOptions forced(const std::string& algorithm,
                              std::optional<PlanPortions> portions = std::nullopt) {
  return {.settings = {{"MCCL_ALGO", algorithm}, {"MCCL_ALGO_STRICT", "1"}},
          .portions = portions,
          .prover = nullptr};
}

inline std::shared_ptr<Work> all_reduce(SimGroup& group, int rank, const std::vector<float>& input,
                                        std::vector<float>& output, ReduceOp op = ReduceOp::Sum) {
  Result<std::shared_ptr<Work>> work = group.communicator(rank).all_reduce(
      input.data(), output.data(), static_cast<int64_t>(input.size()), DataType::Float32, op);
  EXPECT_EQ(work.status().to_string(), "ok");
  return work.is_ok() ? std::move(work).value() : nullptr;
}

// Runs until all are done; each must be ok.
inline void finish(SimGroup& group, const Works& works) {
  ASSERT_TRUE(group.run(works)) << "stuck";
  for (const std::shared_ptr<Work>& work : works) ASSERT_EQ(work->status().to_string(), "ok");
}

// Where `values` is not `expected`, or -1.
inline int64_t first_difference(const std::vector<float>& values, float expected) {
  for (size_t index = 0; index < values.size(); ++index)
    if (values[index] != expected) return static_cast<int64_t>(index);
  return -1;
}

}  // namespace mccl
