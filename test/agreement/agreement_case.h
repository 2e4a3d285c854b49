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
  std::vector<int64_t> block_counts;  // as in ReferenceCall
  bool has_specials = false;          // NaN, infinities, -0 and subnormals among the inputs
  uint64_t seed = 1;
};

// "all_reduce_ring, 3 ranks, float32 sum, counts 5".
std::string to_string(const AgreementCall& call);

// The calls of one algorithm and rank count: all `counts`, every dtype and operation (collectives
// that only move bytes: every dtype), every root, blocks that are equal and blocks that are not; of
// an all_to_all random splits, where the algorithm serves them.
std::vector<AgreementCall> agreement_calls(const Algorithm& algorithm, int rank_count,
                                           const std::vector<int64_t>& counts);

// A third of them, other pairs for each rank count: where slices of a cache line make many
// messages.
std::vector<AgreementCall> a_third_of(const std::vector<AgreementCall>& calls);

// A call of three ranks with 1,000,003 elements or a few more, in one block or in all.
AgreementCall large_agreement_call(const Algorithm& algorithm, DataType dtype, int root);

// Whether the algorithm's collective has in-place calls.
bool has_in_place_form(const Algorithm& algorithm);

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
  Bytes input_block(int rank, int block) const;
  Bytes moved_bytes(int rank) const;
  std::string judge_reduction() const;
  std::string judge_scattered_reduction() const;
  std::string judge_movement() const;

  AgreementCall call_;
  std::vector<Bytes> inputs_;
  std::vector<Bytes> expected_;
};

// The memory of one rank for one call, with guard bytes around every buffer.
class RankMemory {
 public:
  // `agreement` outlives this. `in_place`: the smaller of input and output lies in the larger one
  // as the rank's own block; ranks other than the root of a rooted call have nothing to share.
  RankMemory(const AgreementCase& agreement, int rank, bool in_place);
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  Result<std::shared_ptr<Work>> post(Communicator& communicator, CallOptions options = {});

  // Empty, or what is wrong with memory now that the work is done.
  std::string judge() const;

 private:
  static Bytes guarded(const Bytes& bytes);
  template <typename UserBlock>
  std::vector<UserBlock> user_blocks(std::byte* data, const std::vector<int64_t>& counts) const;

  const AgreementCase& agreement_;
  int rank_;
  Bytes input_;
  Bytes output_;
  std::byte* input_at_ = nullptr;   // in input_, or in output_
  std::byte* output_at_ = nullptr;  // in output_, or in input_
  // What the two must hold in the end, without their guards.
  Bytes expected_input_;
  Bytes expected_output_;
};

}  // namespace mccl
