// Shape of the binomial tree whose subtrees are ranges of ranks, for the gather and the scatter.
#pragma once

#include <algorithm>

namespace mccl {

// Ranks below `rank` in the tree, itself included.
inline int subtree_rank_count(int rank, int rank_count) {
  const int lowest_bit = rank & -rank;
  return rank == 0 ? rank_count : std::min(lowest_bit, rank_count - rank);
}

// Of the largest subtree that the root has below it; 1 where it has none.
inline int largest_subtree_rank_count(int rank_count) {
  int largest = 1;
  for (int rank = 1; rank < rank_count; rank *= 2)
    largest = std::max(largest, subtree_rank_count(rank, rank_count));
  return largest;
}

}  // namespace mccl
