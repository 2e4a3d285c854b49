#include "algorithms/catalog.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace mccl {

// One line per algorithm, here and nowhere else.
#define MCCL_ALGORITHMS(X)       \
  X(kAllReduceRing)              \
  X(kAllReduceRecursiveDoubling) \
  X(kAllReduceAllPairs)          \
  X(kAllReduceHalvingDoubling)   \
  X(kAllReduceTwoLevelRing)      \
  X(kAllGatherRing)              \
  X(kAllGatherDirect)            \
  X(kBroadcastBinomialTree)      \
  X(kBroadcastRing)              \
  X(kReduceScatterRing)          \
  X(kReduceScatterDirect)        \
  X(kReduceBinomialTree)         \
  X(kReduceRing)                 \
  X(kReduceDirect)               \
  X(kGatherDirect)               \
  X(kGatherBinomialTree)         \
  X(kScatterDirect)              \
  X(kScatterBinomialTree)        \
  X(kAllToAllPairwise)           \
  X(kAllToAllBruck)

#define MCCL_DECLARE(name) extern const Algorithm name;
MCCL_ALGORITHMS(MCCL_DECLARE)
#undef MCCL_DECLARE

namespace {

constexpr std::array kCatalog = {
#define MCCL_ADDRESS(name) &name,
    MCCL_ALGORITHMS(MCCL_ADDRESS)
#undef MCCL_ADDRESS
};

}  // namespace

std::span<const Algorithm* const> catalog() {
  return kCatalog;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm* algorithm : kCatalog)
    if (algorithm->name == name) return algorithm;
  return nullptr;
}

Algorithm loaded_algorithm(const LoadedProgram& loaded) {
  // A chain uses every stream to its end, so operations in a row overlap on sets of their own
  // (law L2); many streams keep the wire full by themselves.
  constexpr int kChainSets = 4;
  constexpr int kChainStreamsMax = 8;
  const bool is_chain = loaded.cost.is_pipelined && loaded.cost.recv_streams <= kChainStreamsMax;
  return {
      .name = loaded.program.name,
      .collective = loaded.program.collective,
      .reference = loaded.file,
      .rank_count_max = loaded.program.rank_count(),
      .channel_sets = is_chain ? kChainSets : 1,
      .reduces_in_rank_order = loaded.reduces_in_rank_order,
      .needs_equal_blocks = loaded.program.collective == Collective::AllToAll && !loaded.is_direct,
      .cost = nullptr,
      .build = nullptr,
      .loaded = &loaded};
}

ProgramChoice default_program(const Algorithm& algorithm, int rank_count) {
  const auto default_size = algorithm.groups.default_size;
  return {&algorithm, default_size == nullptr ? 0 : default_size(rank_count)};
}

std::string to_string(const ProgramChoice& choice) {
  if (choice.group_size == 0) return std::string(choice.algorithm->name);
  return fmt::format("{}:{}", choice.algorithm->name, choice.group_size);
}

ProgramChoice find_choice(std::string_view name, std::span<const Algorithm* const> algorithms) {
  const size_t colon = name.find(':');
  int group_size = 0;
  if (colon != std::string_view::npos) {
    const std::string_view digits = name.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto [stopped_at, error] = std::from_chars(digits.data(), end, group_size);
    const bool is_canonical = error == std::errc() && stopped_at == end && digits.front() != '0';
    if (!is_canonical || group_size < 1) return {};
    name = name.substr(0, colon);
  }
  for (const Algorithm* algorithm : algorithms) {
    const bool is_family = algorithm->groups.default_size != nullptr;
    if (algorithm->name == name && is_family == (group_size > 0)) return {algorithm, group_size};
  }
  return {};
}

Status check_rank_count(const ProgramChoice& choice, int rank_count) {
  const Algorithm& algorithm = *choice.algorithm;
  if (algorithm.loaded != nullptr) {
    if (rank_count == algorithm.rank_count_max) return Status::ok();
    return {StatusCode::Unsupported, fmt::format("it is for {} ranks, the communicator has {}",
                                                 algorithm.rank_count_max, rank_count)};
  }
  if (rank_count > algorithm.rank_count_max)
    return {StatusCode::Unsupported,
            fmt::format("it serves at most {} ranks, the communicator has {}",
                        algorithm.rank_count_max, rank_count)};
  if (choice.group_size == 0) return Status::ok();
  return algorithm.groups.check_size(rank_count, choice.group_size);
}

AlgorithmCost program_cost(const ProgramChoice& choice, int rank_count) {
  const Algorithm& algorithm = *choice.algorithm;
  if (algorithm.loaded != nullptr) return algorithm.loaded->cost;
  return choice.group_size == 0 ? algorithm.cost(rank_count)
                                : algorithm.groups.cost(rank_count, choice.group_size);
}

Result<Program> build_program(const ProgramChoice& choice, int rank_count) {
  const Algorithm& algorithm = *choice.algorithm;
  if (algorithm.loaded != nullptr) return algorithm.loaded->program;
  return choice.group_size == 0 ? algorithm.build(rank_count)
                                : algorithm.groups.build(rank_count, choice.group_size);
}

}  // namespace mccl
