// Inputs, expectations and memory of the agreement tests.
//
// The expectation comes from the reference executor, which shares no kernel and no layout code with
// the engine. It is judged here by a third way: arithmetic in agreement_elements.cc, and bytes that
// only move.
#include "agreement/agreement_case.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "agreement/agreement_elements.h"
#include "base/check.h"
#include "base/dtype.h"
#include "base/prng.h"

namespace mccl {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kStale{0x5c};

std::string differs(const char* what, int rank, size_t index) {
  return std::string(what) + " of rank " + std::to_string(rank) + " differs at byte " +
         std::to_string(index);
}

// Where two equally long ranges differ first; `bytes` when nowhere.
size_t first_difference(const std::byte* left, const std::byte* right, size_t bytes) {
  if (bytes == 0 || std::memcmp(left, right, bytes) == 0) return bytes;
  return static_cast<size_t>(std::mismatch(left, left + bytes, right).first - left);
}

std::vector<int64_t> uneven_blocks(int rank_count, int64_t count) {
  std::vector<int64_t> blocks;
  for (int rank = 0; rank < rank_count; ++rank)
    blocks.push_back(rank % 3 == 1 ? 0 : (count * (rank + 1)) / rank_count);
  return blocks;
}

}  // namespace

std::string to_string(const AgreementCall& call) {
  std::string text = std::string(call.algorithm->name) + ", " + std::to_string(call.rank_count) +
                     " ranks, " + std::string(dtype_name(call.dtype)) + " " +
                     std::string(reduce_op_name(call.op)) + ", root " + std::to_string(call.root) +
                     (call.has_specials ? ", specials" : "") + ", counts";
  for (const int64_t count : call.block_counts) text += " " + std::to_string(count);
  return text;
}

std::vector<int64_t> agreement_counts(int rank_count) {
  std::vector<int64_t> counts = {0, 1, 2, 3, 5, rank_count - 1, rank_count, rank_count + 1, 1000};
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<AgreementCall> agreement_calls(const Algorithm& algorithm, int rank_count,
                                           const std::vector<int64_t>& counts) {
  std::vector<AgreementCall> calls;
  const auto add = [&](DataType dtype, ReduceOp op, int root, std::vector<int64_t> blocks) {
    const bool has_specials = has_special_values(dtype) && calls.size() % 3 == 1;
    calls.push_back({&algorithm, rank_count, dtype, op, root, std::move(blocks), has_specials,
                     calls.size() + 1});
  };
  for (size_t index = 0; index < counts.size(); ++index) {
    const int64_t count = counts[index];
    switch (algorithm.collective) {
      case Collective::AllReduce:
        for (const auto& [dtype, op] : reduction_pairs(index, counts.size()))
          add(dtype, op, 0, {count});
        break;
      case Collective::AllGather:
        for (const auto& [dtype, op] : movement_pairs(index, counts.size())) {
          add(dtype, op, 0, std::vector<int64_t>(static_cast<size_t>(rank_count), count));
          add(dtype, op, 0, uneven_blocks(rank_count, count));
        }
        break;
      case Collective::Broadcast:
        for (const auto& [dtype, op] : movement_pairs(index, counts.size()))
          for (int root = 0; root < rank_count; ++root) add(dtype, op, root, {count});
        break;
    }
  }
  return calls;
}

Program build_program(const Algorithm& algorithm, int rank_count) {
  Result<Program> program = algorithm.build(rank_count);
  MCCL_CHECK(program.is_ok());
  return std::move(program).value();
}

AgreementCase::AgreementCase(const AgreementCall& call, const Program& program) : call_(call) {
  const int ranks = call.rank_count;
  Prng prng(call.seed);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool has_own_block = call.algorithm->collective == Collective::AllGather;
    const size_t block = has_own_block ? static_cast<size_t>(rank) : 0;
    inputs_.push_back(make_elements(call.dtype, call.has_specials, prng, call.block_counts[block]));
  }
  ReferenceCall reference{call.dtype, call.op, false, call.block_counts, {}};
  // Programs are rooted at 0: its rank p is our rank (p + root) mod n.
  for (int rank = 0; rank < ranks; ++rank)
    reference.inputs.push_back(inputs_[static_cast<size_t>((rank + call.root) % ranks)]);
  Result<std::vector<Bytes>> outputs = execute_reference(program, reference);
  MCCL_CHECK(outputs.is_ok());
  for (int rank = 0; rank < ranks; ++rank)
    expected_.push_back(outputs.value()[static_cast<size_t>((rank - call.root + ranks) % ranks)]);
}

std::string AgreementCase::judge_expectation() const {
  return call_.algorithm->collective == Collective::AllReduce ? judge_reduction()
                                                              : judge_movement();
}

std::string AgreementCase::judge_movement() const {
  Bytes moved;
  if (call_.algorithm->collective == Collective::Broadcast)
    moved = input(call_.root);
  else
    for (const Bytes& block : inputs_) moved.insert(moved.end(), block.begin(), block.end());
  for (int rank = 0; rank < call_.rank_count; ++rank)
    if (expected(rank) != moved)
      return "the reference moved bytes wrongly to rank " + std::to_string(rank);
  return {};
}

std::string AgreementCase::judge_reduction() const {
  for (int rank = 1; rank < call_.rank_count; ++rank)
    if (expected(rank) != expected(0))
      return "the reference gives different bits to rank " + std::to_string(rank);
  return judge_elements(call_.dtype, call_.op, inputs_, expected(0));
}

RankMemory::RankMemory(const AgreementCase& agreement, int rank, bool in_place)
    : agreement_(agreement), rank_(rank), in_place_(in_place) {
  const Bytes& input = agreement.input(rank);
  input_.assign(input.size() + 2 * kGuardBytes, kGuard);
  std::copy(input.begin(), input.end(), input_.begin() + kGuardBytes);
  const size_t output_bytes = agreement.expected(rank).size();
  output_.assign(output_bytes + 2 * kGuardBytes, kGuard);
  std::fill_n(output_.begin() + kGuardBytes, output_bytes, kStale);
  const AgreementCall& call = agreement.call();
  const bool is_broadcast = call.algorithm->collective == Collective::Broadcast;
  const bool has_input_in_output = is_broadcast ? rank == call.root : in_place;
  if (!has_input_in_output) return;
  const bool is_gather = call.algorithm->collective == Collective::AllGather;
  const size_t offset = is_gather ? block_offset(static_cast<size_t>(rank)) : 0;
  std::copy(input.begin(), input.end(),
            output_.begin() + static_cast<ptrdiff_t>(kGuardBytes + offset));
}

size_t RankMemory::block_offset(size_t block) const {
  const std::vector<int64_t>& counts = agreement_.call().block_counts;
  const int64_t first =
      std::accumulate(counts.begin(), counts.begin() + static_cast<ptrdiff_t>(block), int64_t{0});
  return static_cast<size_t>(first) * dtype_bytes(agreement_.call().dtype);
}

Result<std::shared_ptr<Work>> RankMemory::post(Communicator& communicator, CallOptions options) {
  const AgreementCall& call = agreement_.call();
  std::byte* output = output_.data() + kGuardBytes;
  const std::byte* input = input_.data() + kGuardBytes;
  const int64_t count = call.block_counts[0];
  switch (call.algorithm->collective) {
    case Collective::AllReduce:
      return communicator.all_reduce(in_place_ ? output : input, output, count, call.dtype, call.op,
                                     std::move(options));
    case Collective::AllGather: {
      std::vector<OutputBlock> blocks;
      for (size_t block = 0; block < call.block_counts.size(); ++block)
        blocks.push_back({output + block_offset(block), call.block_counts[block]});
      const void* own = in_place_ ? blocks[static_cast<size_t>(rank_)].data : input;
      return communicator.all_gather(own, std::move(blocks), call.dtype, std::move(options));
    }
    case Collective::Broadcast:
      return communicator.broadcast(output, count, call.dtype, call.root, std::move(options));
  }
  return Status(StatusCode::Internal, "no such collective");
}

std::string RankMemory::judge() const {
  const Bytes& expected = agreement_.expected(rank_);
  const Bytes& input = agreement_.input(rank_);
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  for (const Bytes* bytes : {&input_, &output_})
    if (!std::all_of(bytes->begin(), bytes->begin() + kGuardBytes, is_guard) ||
        !std::all_of(bytes->end() - kGuardBytes, bytes->end(), is_guard))
      return "rank " + std::to_string(rank_) + " wrote outside its memory";
  size_t at = first_difference(input_.data() + kGuardBytes, input.data(), input.size());
  if (at != input.size()) return differs("the input", rank_, at);
  at = first_difference(output_.data() + kGuardBytes, expected.data(), expected.size());
  if (at != expected.size()) return differs("the output", rank_, at);
  return {};
}

}  // namespace mccl
