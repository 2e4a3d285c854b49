// Prints docs/algorithms.md, generated from the catalogue of algorithms.
//   algorithms_doc               the page on standard output
//   algorithms_doc --check FILE  0 when FILE is that page, 1 when it is stale or missing
#include <numeric>
#include <string>

#include "../page_main.h"
#include "algorithms/catalog.h"

namespace mccl {
namespace {

constexpr int kRankCounts[] = {2, 4, 8, 24};

constexpr const char* kOpening =
    "# Algorithms\n"
    "\n"
    "Generated from the catalogue in `src/algorithms` by `make docs`; do not edit.\n"
    "\n"
    "Every algorithm is a program in the chunk language, one file each, and works for any number "
    "of\n"
    "ranks from 1. A test compares the figures below with the lowered programs.\n"
    "\n"
    "- **hops**: messages on the longest chain of dependent messages.\n"
    "- **messages**: what the busiest rank sends, or receives where that is more, in one "
    "iteration.\n"
    "- **moved**: bytes in the same sense. **reduced**, **scratch**: of the busiest (hungriest) "
    "rank.\n"
    "  All are shares of S, the bytes of a rank's larger buffer: for an all-gather those of the "
    "whole\n"
    "  output, for a reduce-scatter those of the whole input.\n"
    "- **pipelined**: hops overlap slice by slice, so that a large buffer takes the time of its "
    "bytes.\n"
    "- **sets**: consecutive operations rotate over so many sets of streams.\n"
    "- **rank order**: every output is one left fold of the inputs in the order of the ranks, "
    "rounded\n"
    "  once (of a reduce: "
    "from\n"
    "  the root on).\n"
    "\n"
    "The fastest by the cost model is chosen, but for `all_to_all_bruck`: it serves equal blocks "
    "only,\n"
    "which no rank can know of the others, so that it runs where `MCCL_ALGO` names it.\n"
    "\n"
    "`:g` after a name: a family with one program per group size, named with it, as in\n"
    "`all_reduce_two_level_ring:20`. Its figures are those of the default size, the root of the\n"
    "rank count rounded up; the planner compares others too.\n"
    "\n"
    "Figures are for 2, 4, 8, 24 ranks; one figure where they are equal.\n"
    "\n"
    "| name | collective | hops | messages | moved | reduced | scratch | pipelined | sets | rank "
    "order | reference |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n";

std::string to_text(int number) {
  return std::to_string(number);
}

std::string to_text(const Fraction& share) {
  const int64_t divisor = std::gcd(share.numerator, share.denominator);
  const int64_t numerator = share.numerator / divisor;
  const int64_t denominator = share.denominator / divisor;
  if (denominator == 1) return std::to_string(numerator);
  return std::to_string(numerator) + "/" + std::to_string(denominator);
}

// One value where all rank counts have the same, else one per rank count. A fraction has a slash
// itself, so that values are kept apart by commas.
template <typename Value>
std::string cell(const Algorithm& algorithm, Value AlgorithmCost::*value) {
  std::string text;
  std::string first;
  bool is_constant = true;
  for (const int rank_count : kRankCounts) {
    const std::string one = to_text(algorithm.cost(rank_count).*value);
    if (text.empty()) first = one;
    is_constant = is_constant && one == first;
    text += (text.empty() ? "" : ", ") + one;
  }
  return (is_constant ? first : text) + " | ";
}

std::string algorithms_page() {
  std::string page = kOpening;
  for (const Algorithm* algorithm : catalog()) {
    const bool is_family = algorithm->groups.default_size != nullptr;
    page += "| `" + std::string(algorithm->name) + (is_family ? ":g` | " : "` | ");
    page += std::string(collective_name(algorithm->collective)) + " | ";
    page += cell(*algorithm, &AlgorithmCost::hops);
    page += cell(*algorithm, &AlgorithmCost::messages);
    page += cell(*algorithm, &AlgorithmCost::bytes_moved);
    page += cell(*algorithm, &AlgorithmCost::bytes_reduced);
    page += cell(*algorithm, &AlgorithmCost::scratch_bytes);
    page += algorithm->cost(kRankCounts[0]).is_pipelined ? "yes | " : "no | ";
    page += std::to_string(algorithm->channel_sets) + " | ";
    page += algorithm->reduces_in_rank_order ? "yes | " : "no | ";
    page += std::string(algorithm->reference) + " |\n";
  }
  return page;
}

}  // namespace
}  // namespace mccl

int main(int argument_count, char** arguments) {
  return mccl::run_page_main("algorithms_doc", mccl::algorithms_page(), argument_count, arguments);
}
