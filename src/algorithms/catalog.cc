#include "algorithms/catalog.h"

#include <array>

namespace mccl {

// One line per algorithm, here and nowhere else.
#define MCCL_ALGORITHMS(X)       \
  X(kAllReduceRing)              \
  X(kAllReduceRecursiveDoubling) \
  X(kAllReduceAllPairs)          \
  X(kAllReduceHalvingDoubling)   \
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

}  // namespace mccl
