// One collective call of all ranks, what it must give, and the memory that it runs in. Used by the
// agreement tests over the simulator and over sockets: both post the same calls and compare with
// the same expectation, which comes from the reference executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/catalog.h"
#include "mccl/communicator.h"
#include "verify/reference.h"

namespace mccl {

struct AgreementCall {
  const Algorithm* algorithm = nullptr;
  int rank_count = 1;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  std::vector<int64_t> block_counts;  // one, or one per rank for all_gather
  bool has_specials = false;          // NaN, infinities, -0 and subnormals among the inputs
  uint64_t seed = 1;
};

// "all_reduce_ring, 3 ranks, float32 sum, counts 5".
std::string to_string(const AgreementCall& call);

// The calls of one algorithm and rank count: every dtype and operation (collectives that only move
// bytes: every dtype), every root of a broadcast, uneven blocks of an all_gather, all `counts`.
std::vector<AgreementCall> agreement_calls(const Algorithm& algorithm, int rank_count,
                                           const std::vector<int64_t>& counts);

// The algorithm's program; aborts when it cannot be built.
Program build_program(const Algorithm& algorithm, int rank_count);

// {0, 1, 2, 3, 5, n-1, n, n+1, 1000}, each once.
std::vector<int64_t> agreement_counts(int rank_count);

// Inputs and expected outputs of a call.
class AgreementCase {
 public:
  // `program` is the call's algorithm for its ranks. Aborts when the reference executor refuses it.
  AgreementCase(const AgreementCall& call, const Program& program);

  const AgreementCall& call() const { return call_; }
  const Bytes& input(int rank) const { return inputs_[static_cast<size_t>(rank)]; }
  const Bytes& expected(int rank) const { return expected_[static_cast<size_t>(rank)]; }

  // Empty when the expectation itself is right: all ranks of an all_reduce equal, integers exact,
  // finite float results within the dtype's bound of a float64 sum, moved bytes unchanged.
  std::string judge_expectation() const;

 private:
  std::string judge_reduction() const;
  std::string judge_movement() const;

  AgreementCall call_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> expected_;
};

// The memory of one rank for one call, with guard bytes around every buffer.
class RankMemory {
 public:
  // `agreement` outlives this. `in_place`: the input is where the output's alias is.
  RankMemory(const AgreementCase& agreement, int rank, bool in_place);

  Result<std::shared_ptr<Work>> post(Communicator& communicator, CallOptions options = {});

  // Empty, or what is wrong with memory now that the work is done.
  std::string judge() const;

 private:
  std::byte* input_data();
  size_t block_offset(size_t block) const;

  const AgreementCase& agreement_;
  int rank_;
  bool in_place_;
  Bytes input_;
  Bytes output_;
};

}  // namespace mccl
