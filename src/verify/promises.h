// What every output chunk must hold, as contributions: the leaves of its tree.
//
// A rank is one contribution to each chunk of a built-in collective, whichever chunk that is:
// origins (law L4) see to it that chunks are not mixed up. A custom collective says for each output
// chunk which input chunks it wants, so there every input chunk is a contribution of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mccl/program.h"
#include "verify/trees.h"

namespace mccl::judge {

class Promises {
 public:
  // The program must have passed check_structure() and outlive this.
  explicit Promises(const Program& program);

  int leaf_count() const { return first_leaf_.back(); }
  // Empty where leaves are ranks.
  std::vector<std::string> leaf_names() const;
  // The contribution that an input chunk is.
  Tree leaf_of(int rank, int chunk) const;
  // "rank 2's contribution", "input[3] of rank 2".
  std::string describe_leaf(Tree leaf) const;

  // What an output chunk must hold, sorted. Empty: anything. The reference is valid until the next
  // call.
  const std::vector<Tree>& wanted(int rank, int chunk);
  // Outputs of equal number must have equal trees on all ranks (law L5).
  int equality_class(int rank, int chunk) const;
  int equality_class_count() const { return class_count_; }

 private:
  bool is_custom() const { return program_.collective == Collective::Custom; }
  int rank_of_leaf(Tree leaf) const;

  const Program& program_;
  std::vector<Tree> first_leaf_;  // by rank, and one past the last
  std::vector<int> classes_;      // custom: by output chunk of all ranks in turn
  std::vector<int> first_output_;
  int class_count_ = 0;
  std::vector<Tree> wanted_;
};

}  // namespace mccl::judge
