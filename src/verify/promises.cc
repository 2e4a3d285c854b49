#include "verify/promises.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/collective.h"

namespace mccl::judge {

Promises::Promises(const Program& program) : program_(program) {
  int outputs = 0;
  std::map<std::vector<Contribution>, int> class_of;
  first_leaf_.push_back(0);
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const int chunks = is_custom() ? buffer_chunk_count(program, rank, Buffer::Input) : 1;
    first_leaf_.push_back(first_leaf_.back() + chunks);
    first_output_.push_back(outputs);
    if (!is_custom()) continue;
    for (const auto& wanted : program.contract[static_cast<size_t>(rank)].outputs) {
      // One contribution, or two, make one tree only; a chunk that may hold anything has none.
      const int fresh = static_cast<int>(class_of.size());
      classes_.push_back(wanted.empty() ? -1 : class_of.emplace(wanted, fresh).first->second);
      ++outputs;
    }
  }
  class_count_ = is_custom() ? static_cast<int>(class_of.size())
                             : origin_block_count(program) * program.chunk_count;
}

std::vector<std::string> Promises::leaf_names() const {
  std::vector<std::string> names;
  if (!is_custom()) return names;
  for (Tree leaf = 0; leaf < leaf_count(); ++leaf) {
    const int rank = rank_of_leaf(leaf);
    names.push_back(std::to_string(rank) + ":" +
                    std::to_string(leaf - first_leaf_[static_cast<size_t>(rank)]));
  }
  return names;
}

Tree Promises::leaf_of(int rank, int chunk) const {
  return first_leaf_[static_cast<size_t>(rank)] + (is_custom() ? chunk : 0);
}

int Promises::rank_of_leaf(Tree leaf) const {
  const auto above = std::upper_bound(first_leaf_.begin(), first_leaf_.end(), leaf);
  return static_cast<int>(above - first_leaf_.begin()) - 1;
}

std::string Promises::describe_leaf(Tree leaf) const {
  const int rank = rank_of_leaf(leaf);
  if (!is_custom()) return "rank " + std::to_string(rank) + "'s contribution";
  const Span span{rank, Buffer::Input, leaf - first_leaf_[static_cast<size_t>(rank)], 1};
  return to_string(span) + " of rank " + std::to_string(rank);
}

const std::vector<Tree>& Promises::wanted(int rank, int chunk) {
  wanted_.clear();
  if (is_custom()) {
    for (const Contribution& part :
         program_.contract[static_cast<size_t>(rank)].outputs[static_cast<size_t>(chunk)])
      wanted_.push_back(leaf_of(part.rank, part.index));
  } else if (is_reducing(program_.collective)) {
    wanted_.resize(static_cast<size_t>(leaf_count()));
    std::iota(wanted_.begin(), wanted_.end(), 0);
  } else {
    const int block = origin_block(program_, Buffer::Output, rank, chunk / program_.chunk_count);
    wanted_.push_back(leaf_of(source_rank(program_, block), 0));
  }
  return wanted_;
}

int Promises::equality_class(int rank, int chunk) const {
  if (is_custom())
    return classes_[static_cast<size_t>(first_output_[static_cast<size_t>(rank)] + chunk)];
  const int block = origin_block(program_, Buffer::Output, rank, chunk / program_.chunk_count);
  return block * program_.chunk_count + chunk % program_.chunk_count;
}

}  // namespace mccl::judge
