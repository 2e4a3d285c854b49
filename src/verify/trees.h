// Trees of reductions (law L5), each structure once: equal trees have equal ids.
//
// A leaf is a contribution: a rank's, or of a custom collective an input chunk's (promises.h). A
// binary node is an unordered pair, rounded to the wire type. A fold of three or more is a node
// kind of its own: its first two operands are unordered, the others ordered, and it is rounded
// once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace mccl::judge {

using Tree = int32_t;

class TreePool {
 public:
  // Leaves have the ids from 0 to leaf_count - 1 and these names in texts; without names, their
  // numbers.
  explicit TreePool(int leaf_count, std::vector<std::string> leaf_names = {});

  Tree binary(Tree left, Tree right);
  // One operand gives that operand, two a binary node.
  Tree fold(std::vector<Tree> operands);

  // A hash of the structure alone: equal trees of two pools have equal digests.
  uint64_t digest(Tree tree) const { return nodes_[static_cast<size_t>(tree)].digest; }
  // A leaf that is in the tree more than once; -1: none.
  Tree repeated_leaf(Tree tree) const { return nodes_[static_cast<size_t>(tree)].repeated_leaf; }
  bool contains(Tree tree, Tree leaf) const;
  // How many different leaves it has.
  int leaf_count(Tree tree) const;
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
    int32_t repeated_leaf;
  };

  std::span<const Tree> operands(Tree tree) const;
  Tree intern(std::span<const Tree> sorted_operands);
  Tree add(std::span<const Tree> sorted_operands);
  uint64_t digest_of(std::span<const Tree> sorted_operands) const;
  void append_text(Tree tree, int depth, std::string& text) const;
  void grow_table();

  std::vector<std::string> leaf_names_;
  size_t words_per_tree_;
  bool is_within_limit_ = true;
  std::vector<NodeRow> nodes_;
  std::vector<Tree> operands_;
  std::vector<uint64_t> contributions_;  // words_per_tree_ per node, bit l for leaf l
  std::vector<Tree> table_;              // open addressing by digest; -1: free
};

}  // namespace mccl::judge
