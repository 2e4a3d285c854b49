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

// What every rank sends every other: any length up to `count`, often nothing.
std::vector<int64_t> random_splits(int rank_count, int64_t count) {
  Prng prng(static_cast<uint64_t>(rank_count * 1'000'003 + count));
  std::vector<int64_t> splits;
  for (int pair = 0; pair < rank_count * rank_count; ++pair)
    splits.push_back(prng.below(3) == 0
                         ? 0
                         : static_cast<int64_t>(prng.below(static_cast<uint64_t>(count + 1))));
  return splits;
}

std::vector<int64_t> equal_blocks(int block_count, int64_t count) {
  return std::vector<int64_t>(static_cast<size_t>(block_count), count);
}

int64_t sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// The calls of one count, in the order in which they are posted.
class CallList {
 public:
  CallList(const Algorithm& algorithm, int rank_count, std::vector<AgreementCall>& calls)
      : algorithm_(algorithm), rank_count_(rank_count), calls_(calls) {}

  void add(const ElementPair& pair, int root, std::vector<int64_t> blocks) {
    const bool has_specials = has_special_values(pair.dtype) && calls_.size() % 3 == 1;
    calls_.push_back({&algorithm_, rank_count_, pair.dtype, pair.op, root, std::move(blocks),
                      has_specials, calls_.size() + 1});
  }

  // Every pair with the next root, and every root at least once.
  void add_rooted(const std::vector<ElementPair>& pairs, const std::vector<int64_t>& blocks) {
    const size_t count = std::max(pairs.size(), static_cast<size_t>(rank_count_));
    for (size_t index = 0; index < count; ++index)
      add(pairs[index % pairs.size()], static_cast<int>(index) % rank_count_, blocks);
  }

  void add_count(int64_t count, const std::vector<ElementPair>& reductions,
                 const std::vector<ElementPair>& movements) {
    const int ranks = rank_count_;
    switch (algorithm_.collective) {
      case Collective::AllReduce:
        for (const ElementPair& pair : reductions) add(pair, 0, {count});
        break;
      case Collective::Reduce:
        add_rooted(reductions, {count});
        break;
      case Collective::Broadcast:
        add_rooted(movements, {count});
        break;
      case Collective::Gather:
      case Collective::Scatter:
        add_rooted(movements, equal_blocks(ranks, count));
        break;
      case Collective::ReduceScatter:
        for (const ElementPair& pair : reductions)
          add(pair, 0,
              calls_.size() % 2 == 0 ? equal_blocks(ranks, count) : uneven_blocks(ranks, count));
        break;
      case Collective::AllGather:
        for (const ElementPair& pair : movements) {
          add(pair, 0, equal_blocks(ranks, count));
          add(pair, 0, uneven_blocks(ranks, count));
        }
        break;
      case Collective::AllToAll:
        for (const ElementPair& pair : movements) {
          add(pair, 0, equal_blocks(ranks * ranks, count));
          if (!algorithm_.needs_equal_blocks) add(pair, 0, random_splits(ranks, count));
        }
        break;
      case Collective::Custom:
        break;
    }
  }

 private:
  const Algorithm& algorithm_;
  int rank_count_;
  std::vector<AgreementCall>& calls_;
};

// The lengths of the blocks of a rank's input or output, as the calls of communicator.h define
// them.
std::vector<int64_t> input_blocks(const AgreementCall& call, int rank) {
  const std::vector<int64_t>& counts = call.block_counts;
  switch (call.algorithm->collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
    case Collective::Broadcast:
      return {counts[0]};
    case Collective::AllGather:
    case Collective::Gather:
      return {counts[static_cast<size_t>(rank)]};
    case Collective::ReduceScatter:
      return counts;
    case Collective::Scatter:
      return rank == call.root ? counts : std::vector<int64_t>{};
    case Collective::AllToAll: {
      const auto row = counts.begin() + rank * call.rank_count;
      return {row, row + call.rank_count};
    }
    case Collective::Custom:
      break;
  }
  return {};
}

std::vector<int64_t> output_blocks(const AgreementCall& call, int rank) {
  const std::vector<int64_t>& counts = call.block_counts;
  switch (call.algorithm->collective) {
    case Collective::AllReduce:
    case Collective::Broadcast:
      return {counts[0]};
    case Collective::Reduce:
      return rank == call.root ? counts : std::vector<int64_t>{};
    case Collective::AllGather:
      return counts;
    case Collective::Gather:
      return rank == call.root ? counts : std::vector<int64_t>{};
    case Collective::ReduceScatter:
    case Collective::Scatter:
      return {counts[static_cast<size_t>(rank)]};
    case Collective::AllToAll: {
      std::vector<int64_t> column;
      for (int source = 0; source < call.rank_count; ++source)
        column.push_back(counts[static_cast<size_t>(source * call.rank_count + rank)]);
      return column;
    }
    case Collective::Custom:
      break;
  }
  return {};
}

size_t block_offset(const AgreementCall& call, const std::vector<int64_t>& blocks, int block) {
  const int64_t first = std::accumulate(blocks.begin(), blocks.begin() + block, int64_t{0});
  return static_cast<size_t>(first) * dtype_bytes(call.dtype);
}

// A block of a buffer of `blocks`.
Bytes cut_block(const AgreementCall& call, const Bytes& bytes, const std::vector<int64_t>& blocks,
                int block) {
  const auto first = bytes.begin() + static_cast<ptrdiff_t>(block_offset(call, blocks, block));
  const auto last = bytes.begin() + static_cast<ptrdiff_t>(block_offset(call, blocks, block + 1));
  return {first, last};
}

void append(const Bytes& bytes, Bytes& to) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

// The root's many blocks in the order of the program's ranks, or back: the root's comes first
// there.
Bytes rotate_blocks(const AgreementCall& call, Bytes bytes, int first_block) {
  const size_t offset = block_offset(call, call.block_counts, first_block);
  std::rotate(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(offset), bytes.end());
  return bytes;
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
  CallList list(algorithm, rank_count, calls);
  for (size_t index = 0; index < counts.size(); ++index) {
    const PairTurn now{rank_count, index, counts.size()};
    list.add_count(counts[index], reduction_pairs(now), movement_pairs(now));
  }
  return calls;
}

std::vector<AgreementCall> a_third_of(const std::vector<AgreementCall>& calls) {
  std::vector<AgreementCall> chosen;
  for (const AgreementCall& call : calls) {
    const auto turn = call.seed + call.seed / 3 + static_cast<uint64_t>(call.rank_count);
    if (turn % 3 == 0) chosen.push_back(call);
  }
  return chosen;
}

AgreementCall large_agreement_call(const Algorithm& algorithm, DataType dtype, int root) {
  AgreementCall call{&algorithm, 3, dtype, ReduceOp::Sum, root, {1'000'003}, true, 7};
  switch (algorithm.collective) {
    case Collective::AllReduce:
      call.root = 0;
      break;
    case Collective::Reduce:
    case Collective::Broadcast:
      break;
    case Collective::AllGather:
    case Collective::ReduceScatter:
      call.root = 0;
      call.block_counts = {1'000'003, 0, 4'099};
      break;
    case Collective::Gather:
    case Collective::Scatter:
      call.block_counts = equal_blocks(3, 333'337);
      break;
    case Collective::AllToAll:
      call.root = 0;
      call.block_counts = {4'099, 1'000'003, 0, 7, 0, 70'001, 0, 333'337, 1};
      if (algorithm.needs_equal_blocks) call.block_counts = equal_blocks(9, 111'119);
      break;
    case Collective::Custom:
      break;
  }
  return call;
}

bool has_in_place_form(const Algorithm& algorithm) {
  return algorithm.collective != Collective::AllToAll;
}

Program build_program(const Algorithm& algorithm, int rank_count) {
  Result<Program> program = algorithm.build(rank_count);
  MCCL_CHECK(program.is_ok());
  return std::move(program).value();
}

AgreementCase::AgreementCase(const AgreementCall& call, const Program& program) : call_(call) {
  const int ranks = call.rank_count;
  Prng prng(call.seed);
  for (int rank = 0; rank < ranks; ++rank)
    inputs_.push_back(
        make_elements(call.dtype, call.has_specials, prng, sum(input_blocks(call, rank))));
  ReferenceCall reference{call.dtype, call.op, false, call.block_counts, {}};
  // Programs are rooted at 0: its rank p is our rank (p + root) mod n.
  for (int rank = 0; rank < ranks; ++rank)
    reference.inputs.push_back(inputs_[static_cast<size_t>((rank + call.root) % ranks)]);
  const Collective collective = call.algorithm->collective;
  if (collective == Collective::Scatter)
    reference.inputs[0] = rotate_blocks(call, reference.inputs[0], call.root);
  Result<std::vector<Bytes>> outputs = execute_reference(program, reference);
  MCCL_CHECK(outputs.is_ok());
  for (int rank = 0; rank < ranks; ++rank)
    expected_.push_back(outputs.value()[static_cast<size_t>((rank - call.root + ranks) % ranks)]);
  if (collective == Collective::Gather) {
    Bytes& gathered = expected_[static_cast<size_t>(call.root)];
    gathered = rotate_blocks(call, gathered, (ranks - call.root) % ranks);
  }
}

std::string AgreementCase::judge_expectation() const {
  switch (call_.algorithm->collective) {
    case Collective::AllReduce:
    case Collective::Reduce:
      return judge_reduction();
    case Collective::ReduceScatter:
      return judge_scattered_reduction();
    case Collective::AllGather:
    case Collective::Broadcast:
    case Collective::Gather:
    case Collective::Scatter:
    case Collective::AllToAll:
      return judge_movement();
    case Collective::Custom:
      break;
  }
  return "no such collective";
}

Bytes AgreementCase::input_block(int rank, int block) const {
  return cut_block(call_, input(rank), input_blocks(call_, rank), block);
}

// What must have moved to `rank`.
Bytes AgreementCase::moved_bytes(int rank) const {
  const Collective collective = call_.algorithm->collective;
  if (collective == Collective::Broadcast) return input(call_.root);
  if (collective == Collective::Scatter) return input_block(call_.root, rank);
  if (collective == Collective::Gather && rank != call_.root) return {};
  Bytes moved;
  for (int source = 0; source < call_.rank_count; ++source)
    append(collective == Collective::AllToAll ? input_block(source, rank) : input(source), moved);
  return moved;
}

std::string AgreementCase::judge_movement() const {
  for (int rank = 0; rank < call_.rank_count; ++rank)
    if (expected(rank) != moved_bytes(rank))
      return "the reference moved bytes wrongly to rank " + std::to_string(rank);
  return {};
}

std::string AgreementCase::judge_reduction() const {
  const bool is_on_all = call_.algorithm->collective == Collective::AllReduce;
  for (int rank = 0; rank < call_.rank_count; ++rank)
    if (rank != call_.root && expected(rank) != (is_on_all ? expected(call_.root) : Bytes{}))
      return "the reference gives different bits to rank " + std::to_string(rank);
  return judge_elements(call_.dtype, call_.op, inputs_, expected(call_.root));
}

std::string AgreementCase::judge_scattered_reduction() const {
  for (int rank = 0; rank < call_.rank_count; ++rank) {
    std::vector<Bytes> shares;
    for (int source = 0; source < call_.rank_count; ++source)
      shares.push_back(input_block(source, rank));
    if (expected(rank).size() != shares[0].size())
      return "the reference gives rank " + std::to_string(rank) + " a block of another length";
    std::string fault = judge_elements(call_.dtype, call_.op, shares, expected(rank));
    if (!fault.empty()) return fault;
  }
  return {};
}

RankMemory::RankMemory(const AgreementCase& agreement, int rank, bool in_place)
    : agreement_(agreement), rank_(rank) {
  const AgreementCall& call = agreement.call();
  const Collective collective = call.algorithm->collective;
  expected_input_ = agreement.input(rank);
  expected_output_ = agreement.expected(rank);
  input_ = guarded(expected_input_);
  output_ = guarded(Bytes(expected_output_.size(), kStale));
  const std::vector<int64_t> inputs = input_blocks(call, rank);
  const std::vector<int64_t> outputs = output_blocks(call, rank);
  // Which of the two a rank has, and has room for, depends on the collective and on the root.
  const bool is_in_output =
      collective == Collective::Broadcast ? rank == call.root : in_place && !outputs.empty();
  if (inputs.size() > outputs.size() && in_place && outputs.size() == 1) {
    const size_t offset = block_offset(call, inputs, rank);
    output_at_ = input_.data() + kGuardBytes + offset;
    std::copy(expected_output_.begin(), expected_output_.end(),
              expected_input_.begin() + static_cast<ptrdiff_t>(offset));
    std::fill(expected_output_.begin(), expected_output_.end(), kStale);
  } else if (is_in_output && !inputs.empty()) {
    const size_t offset = outputs.size() > 1 ? block_offset(call, outputs, rank) : 0;
    std::copy(expected_input_.begin(), expected_input_.end(),
              output_.begin() + static_cast<ptrdiff_t>(kGuardBytes + offset));
    if (in_place) input_at_ = output_.data() + kGuardBytes + offset;
  }
  if (input_at_ == nullptr) input_at_ = input_.data() + kGuardBytes;
  if (output_at_ == nullptr) output_at_ = output_.data() + kGuardBytes;
}

Bytes RankMemory::guarded(const Bytes& bytes) {
  Bytes memory(bytes.size() + 2 * kGuardBytes, kGuard);
  std::copy(bytes.begin(), bytes.end(), memory.begin() + kGuardBytes);
  return memory;
}

template <typename UserBlock>
std::vector<UserBlock> RankMemory::user_blocks(std::byte* data,
                                               const std::vector<int64_t>& counts) const {
  std::vector<UserBlock> blocks;
  for (size_t block = 0; block < counts.size(); ++block)
    blocks.push_back(
        {data + block_offset(agreement_.call(), counts, static_cast<int>(block)), counts[block]});
  return blocks;
}

Result<std::shared_ptr<Work>> RankMemory::post(Communicator& communicator, CallOptions options) {
  const AgreementCall& call = agreement_.call();
  const int64_t count = call.block_counts[0];
  std::byte* root_output = rank_ == call.root ? output_at_ : nullptr;
  auto inputs = user_blocks<InputBlock>(input_at_, input_blocks(call, rank_));
  auto outputs = user_blocks<OutputBlock>(output_at_, output_blocks(call, rank_));
  switch (call.algorithm->collective) {
    case Collective::AllReduce:
      return communicator.all_reduce(input_at_, output_at_, count, call.dtype, call.op,
                                     std::move(options));
    case Collective::AllGather:
      return communicator.all_gather(input_at_, std::move(outputs), call.dtype, std::move(options));
    case Collective::Broadcast:
      return communicator.broadcast(output_at_, count, call.dtype, call.root, std::move(options));
    case Collective::ReduceScatter:
      return communicator.reduce_scatter(std::move(inputs), output_at_, call.dtype, call.op,
                                         std::move(options));
    case Collective::Reduce:
      return communicator.reduce(input_at_, root_output, count, call.dtype, call.op, call.root,
                                 std::move(options));
    case Collective::Gather:
      return communicator.gather(input_at_, count, std::move(outputs), call.dtype, call.root,
                                 std::move(options));
    case Collective::Scatter:
      return communicator.scatter(std::move(inputs), output_at_, count, call.dtype, call.root,
                                  std::move(options));
    case Collective::AllToAll:
      return communicator.all_to_all(std::move(inputs), std::move(outputs), call.dtype,
                                     std::move(options));
    case Collective::Custom:
      break;
  }
  return Status(StatusCode::Internal, "no such collective");
}

std::string RankMemory::judge() const {
  const auto is_guard = [](std::byte byte) { return byte == kGuard; };
  for (const Bytes* bytes : {&input_, &output_})
    if (!std::all_of(bytes->begin(), bytes->begin() + kGuardBytes, is_guard) ||
        !std::all_of(bytes->end() - kGuardBytes, bytes->end(), is_guard))
      return "rank " + std::to_string(rank_) + " wrote outside its memory";
  const Bytes& input = expected_input_;
  size_t at = first_difference(input_.data() + kGuardBytes, input.data(), input.size());
  if (at != input.size()) return differs("the input", rank_, at);
  const Bytes& output = expected_output_;
  at = first_difference(output_.data() + kGuardBytes, output.data(), output.size());
  if (at != output.size()) return differs("the output", rank_, at);
  return {};
}

}  // namespace mccl
