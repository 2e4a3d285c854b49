// What must wait for what: edges between nodes of one rank that touch the same chunk, one of them
// writing, in statement order. In-place programs see input and output as the same memory, so the
// order holds in both views. Messages are edges too, but not listed here: they are in the graph.
#pragma once

#include <span>

#include "lang/step_graph.h"

namespace mccl::lang {

class ChunkDag {
 public:
  ChunkDag(const StepGraph& graph, const Program& shape);

  // Direct predecessors, unique, in no particular order that a caller may rely on but always the
  // same.
  std::span<const int> predecessors(int node) const { return row(predecessors_, node); }
  std::span<const int> successors(int node) const { return row(successors_, node); }

 private:
  struct Rows {
    Indexed<int> begin;  // one more than there are nodes
    Indexed<int> items;
  };
  static std::span<const int> row(const Rows& rows, int node) {
    return {rows.items.data() + rows.begin[node], rows.items.data() + rows.begin[node + 1]};
  }

  Rows predecessors_;
  Rows successors_;
};

}  // namespace mccl::lang
