// Inputs, expectations and memory of the agreement tests.
//
// The expectation comes from the reference executor, which shares no kernel and no layout code with
// the engine. It is judged here by a third way: float64 sums with the error bound of n - 1
// roundings, integers modulo 2^64, bytes that only move.
#include "agreement/agreement_case.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/dtype.h"
#include "base/prng.h"

namespace mccl {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuard{0xa5};
constexpr std::byte kStale{0x5c};

// Bits of a bfloat16 or float32 that no ordinary arithmetic makes: quiet and signalling NaNs with
// payloads, infinities, both zeros, subnormals and the largest finite numbers.
constexpr std::array<uint32_t, 12> kSpecials = {0x7fc00000, 0xffc10000, 0x7f810000, 0x7f800000,
                                                0xff800000, 0x80000000, 0x00000000, 0x00010000,
                                                0x807f0000, 0x00200000, 0x7f7f0000, 0xff7f0000};

bool is_floating(DataType dtype) {
  return dtype == DataType::Float32 || dtype == DataType::BFloat16;
}

size_t element_count(const Bytes& bytes, DataType dtype) {
  return bytes.size() / dtype_bytes(dtype);
}

template <typename T>
T load_as(const Bytes& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

double load_float(const Bytes& bytes, DataType dtype, size_t index) {
  if (dtype == DataType::Float32) return static_cast<double>(load_as<float>(bytes, index));
  const uint32_t bits = load_as<uint16_t>(bytes, index);
  return static_cast<double>(std::bit_cast<float>(bits << 16));
}

void fill_element(const AgreementCall& call, Prng& prng, std::byte* element) {
  if (!is_floating(call.dtype)) {
    const uint64_t bits = prng.below(4) == 0 ? prng.next() : prng.below(2000) - 1000;
    std::memcpy(element, &bits, dtype_bytes(call.dtype));
    return;
  }
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(prng.unit() * 200 - 100));
  if (call.has_specials && prng.below(3) == 0) bits = kSpecials[prng.below(kSpecials.size())];
  if (call.dtype == DataType::Float32) {
    std::memcpy(element, &bits, sizeof(bits));
  } else {
    const auto half = static_cast<uint16_t>(bits >> 16);
    std::memcpy(element, &half, sizeof(half));
  }
}

Bytes make_input(const AgreementCall& call, Prng& prng, int64_t count) {
  const size_t element_bytes = dtype_bytes(call.dtype);
  Bytes bytes(static_cast<size_t>(count) * element_bytes);
  for (size_t at = 0; at < bytes.size(); at += element_bytes)
    fill_element(call, prng, bytes.data() + at);
  return bytes;
}

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
    const bool has_specials = is_floating(dtype) && calls.size() % 3 == 1;
    calls.push_back({&algorithm, rank_count, dtype, op, root, std::move(blocks), has_specials,
                     calls.size() + 1});
  };
  for (const int64_t count : counts)
    for (const DataTypeRow& row : data_types()) switch (algorithm.collective) {
        case Collective::AllReduce:
          for (const ReduceOp op : all_reduce_ops()) add(row.dtype, op, 0, {count});
          break;
        case Collective::AllGather:
          add(row.dtype, ReduceOp::Sum, 0,
              std::vector<int64_t>(static_cast<size_t>(rank_count), count));
          add(row.dtype, ReduceOp::Sum, 0, uneven_blocks(rank_count, count));
          break;
        case Collective::Broadcast:
          for (int root = 0; root < rank_count; ++root)
            add(row.dtype, ReduceOp::Sum, root, {count});
          break;
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
    inputs_.push_back(make_input(call, prng, call.block_counts[block]));
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
  const double divisor = call_.op == ReduceOp::Avg ? call_.rank_count : 1;
  // n - 1 additions and a division, each off by at most half a unit in the last place, of values of
  // at most the sum of magnitudes; a float64 sum is exact enough to compare with.
  const double unit = call_.dtype == DataType::Float32 ? 0x1p-24 : 0x1p-8;
  const double relative = std::pow(1 + unit, call_.rank_count) - 1 + 0x1p-40;
  for (size_t index = 0; index < element_count(expected(0), call_.dtype); ++index) {
    if (call_.dtype == DataType::Int64) {
      uint64_t sum = 0;
      for (const Bytes& bytes : inputs_) sum += load_as<uint64_t>(bytes, index);
      const auto found = load_as<int64_t>(expected(0), index);
      const auto exact = std::bit_cast<int64_t>(sum) / static_cast<int64_t>(divisor);
      const bool is_sum = call_.op == ReduceOp::Sum || call_.op == ReduceOp::Avg;
      if (is_sum && found != exact) return "integer sum " + std::to_string(index) + " is wrong";
      continue;
    }
    double sum = 0;
    double magnitude = 0;
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
    for (const Bytes& bytes : inputs_) {
      const double value = load_float(bytes, call_.dtype, index);
      sum += value;
      magnitude += std::abs(value);
      least = std::min(least, value);
      most = std::max(most, value);
    }
    // Sums of specials may overflow on the way; their bits are the reference's to say.
    if (!(magnitude < 1e30)) continue;
    const double found = load_float(expected(0), call_.dtype, index);
    const double tiny = std::numeric_limits<float>::denorm_min() * 0x1p16;
    const bool is_right = call_.op == ReduceOp::Min   ? found == least
                          : call_.op == ReduceOp::Max ? found == most
                                                      : std::abs(found - sum / divisor) <=
                                                            magnitude / divisor * relative + tiny;
    if (!is_right)
      return "element " + std::to_string(index) + " is " + std::to_string(found) +
             ", a float64 sum gives " + std::to_string(sum / divisor);
  }
  return {};
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
