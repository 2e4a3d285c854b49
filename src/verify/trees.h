// Trees of reductions (law L5), each structure once: equal trees have equal ids.
//
// A leaf is a rank's contribution. A binary node is an unordered pair, rounded to the wire type. A
// fold of three or more is a node kind of its own: its first two operands are unordered, the others
// ordered, and it is rounded once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mccl::judge {

using Tree = int32_t;

class TreePool {
 public:
  explicit TreePool(int rank_count);

  // The id of the contribution of a rank is the rank.
  static Tree leaf(int rank) { return rank; }
  Tree binary(Tree left, Tree right);
  // One operand gives that operand, two a binary node.
  Tree fold(std::vector<Tree> operands);

  // A hash of the structure alone: equal trees of two pools have equal digests.
  uint64_t digest(Tree tree) const { return nodes_[static_cast<size_t>(tree)].digest; }
  // A rank whose contribution is in the tree more than once; -1: none.
  int repeated_rank(Tree tree) const { return nodes_[static_cast<size_t>(tree)].repeated_rank; }
  // A rank whose contribution is missing; -1: none.
  int missing_rank(Tree tree) const;
  // "(0 + 1)" and "fold(0, 1, 2)", cut off where it gets long.
  std::string describe(Tree tree) const;

  // Whether the contributions of all trees fit the memory that a proof may take. Once false, ids
  // mean nothing any more.
  bool is_within_limit() const { return is_within_limit_; }

 private:
  struct NodeRow {
    uint64_t digest;
    size_t first_operand;
    uint32_t operand_count;
    int32_t repeated_rank;
  };

  std::span<const Tree> operands(Tree tree) const;
  Tree intern(std::span<const Tree> sorted_operands);
  Tree add(std::span<const Tree> sorted_operands);
  uint64_t digest_of(std::span<const Tree> sorted_operands) const;
  void append_text(Tree tree, int depth, std::string& text) const;
  void grow_table();

  int rank_count_;
  size_t words_per_tree_;
  bool is_within_limit_ = true;
  std::vector<NodeRow> nodes_;
  std::vector<Tree> operands_;
  std::vector<uint64_t> contributions_;  // words_per_tree_ per node, bit r for rank r
  std::vector<Tree> table_;              // open addressing by digest; -1: free
};

}  // namespace mccl::judge
