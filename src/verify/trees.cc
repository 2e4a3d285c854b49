#include "verify/trees.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace mccl::judge {
namespace {

constexpr size_t kContributionWordsMax = size_t{1} << 27;  // 1 GiB
constexpr size_t kTextMax = 160;
constexpr int kTextDepthMax = 40;

// The finaliser of SplitMix64, a bijection with good avalanche.
uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

uint64_t combine(uint64_t seed, uint64_t value) {
  return mix(seed * 0x9e3779b97f4a7c15ULL + mix(value + 0x2545f4914f6cdd1dULL));
}

}  // namespace

TreePool::TreePool(int leaf_count, std::vector<std::string> leaf_names)
    : leaf_names_(std::move(leaf_names)),
      words_per_tree_((static_cast<size_t>(leaf_count) + 63) / 64) {
  table_.assign(1024, -1);
  for (Tree leaf = 0; leaf < leaf_count; ++leaf) {
    nodes_.push_back({combine(1, static_cast<uint64_t>(leaf)), 0, 0, -1});
    contributions_.resize(contributions_.size() + words_per_tree_, 0);
    contributions_[contributions_.size() - words_per_tree_ + static_cast<size_t>(leaf) / 64] =
        uint64_t{1} << (leaf % 64);
  }
}

std::span<const Tree> TreePool::operands(Tree tree) const {
  const NodeRow& node = nodes_[static_cast<size_t>(tree)];
  return {operands_.data() + node.first_operand, node.operand_count};
}

Tree TreePool::binary(Tree left, Tree right) {
  const Tree sorted[] = {std::min(left, right), std::max(left, right)};
  return intern(sorted);
}

Tree TreePool::fold(std::vector<Tree> operands) {
  if (operands.size() == 1) return operands[0];
  if (operands[0] > operands[1]) std::swap(operands[0], operands[1]);
  return intern(operands);
}

uint64_t TreePool::digest_of(std::span<const Tree> sorted_operands) const {
  // Ids depend on the order of discovery, so the unordered pair is sorted by digest here.
  const uint64_t a = digest(sorted_operands[0]);
  const uint64_t b = digest(sorted_operands[1]);
  uint64_t result =
      combine(combine(combine(2, sorted_operands.size()), std::min(a, b)), std::max(a, b));
  for (const Tree operand : sorted_operands.subspan(2)) result = combine(result, digest(operand));
  return result;
}

Tree TreePool::intern(std::span<const Tree> sorted_operands) {
  if (nodes_.size() * 2 > table_.size()) grow_table();
  const uint64_t wanted = digest_of(sorted_operands);
  size_t slot = wanted & (table_.size() - 1);
  for (; table_[slot] != -1; slot = (slot + 1) & (table_.size() - 1)) {
    const auto found = operands(table_[slot]);
    if (std::equal(found.begin(), found.end(), sorted_operands.begin(), sorted_operands.end()))
      return table_[slot];
  }
  if (contributions_.size() + words_per_tree_ > kContributionWordsMax) {
    is_within_limit_ = false;
    return sorted_operands[0];
  }
  table_[slot] = add(sorted_operands);
  return table_[slot];
}

Tree TreePool::add(std::span<const Tree> sorted_operands) {
  NodeRow node{digest_of(sorted_operands), operands_.size(),
               static_cast<uint32_t>(sorted_operands.size()), -1};
  const size_t first_word = contributions_.size();
  contributions_.resize(first_word + words_per_tree_, 0);
  for (const Tree operand : sorted_operands) {
    if (node.repeated_leaf == -1) node.repeated_leaf = repeated_leaf(operand);
    for (size_t word = 0; word < words_per_tree_; ++word) {
      const uint64_t more = contributions_[static_cast<size_t>(operand) * words_per_tree_ + word];
      const uint64_t twice = contributions_[first_word + word] & more;
      if (twice != 0 && node.repeated_leaf == -1)
        node.repeated_leaf = static_cast<int32_t>(word) * 64 + std::countr_zero(twice);
      contributions_[first_word + word] |= more;
    }
  }
  operands_.insert(operands_.end(), sorted_operands.begin(), sorted_operands.end());
  nodes_.push_back(node);
  return static_cast<Tree>(nodes_.size() - 1);
}

void TreePool::grow_table() {
  std::vector<Tree> larger(table_.size() * 2, -1);
  for (const Tree tree : table_) {
    if (tree == -1) continue;
    size_t slot = digest(tree) & (larger.size() - 1);
    while (larger[slot] != -1) slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = tree;
  }
  table_ = std::move(larger);
}

bool TreePool::contains(Tree tree, Tree leaf) const {
  const size_t word = static_cast<size_t>(tree) * words_per_tree_ + static_cast<size_t>(leaf) / 64;
  return (contributions_[word] >> (leaf % 64) & 1) != 0;
}

int TreePool::leaf_count(Tree tree) const {
  int count = 0;
  for (size_t word = 0; word < words_per_tree_; ++word)
    count += std::popcount(contributions_[static_cast<size_t>(tree) * words_per_tree_ + word]);
  return count;
}

std::string TreePool::describe(Tree tree) const {
  std::string text;
  append_text(tree, 0, text);
  if (text.size() > kTextMax) text = text.substr(0, kTextMax) + "...";
  return text;
}

void TreePool::append_text(Tree tree, int depth, std::string& text) const {
  const auto parts = operands(tree);
  if (parts.empty()) {
    text += leaf_names_.empty() ? std::to_string(tree) : leaf_names_[static_cast<size_t>(tree)];
    return;
  }
  if (depth > kTextDepthMax) {
    text += "...";
    return;
  }
  text += parts.size() == 2 ? "(" : "fold(";
  for (size_t i = 0; i < parts.size() && text.size() <= kTextMax; ++i) {
    if (i > 0) text += parts.size() == 2 ? " + " : ", ";
    append_text(parts[i], depth + 1, text);
  }
  text += ")";
}

}  // namespace mccl::judge
