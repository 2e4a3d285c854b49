// What travels in a ring where every rank sends to its right neighbour only.
#pragma once

#include <cstdint>

#include "algorithms/catalog.h"

namespace mccl {

inline void visit_ring_traffic(int rank_count, int64_t chunk_count, const TrafficVisitor& visit) {
  for (int rank = 0; rank_count > 1 && rank < rank_count; ++rank)
    visit(rank, (rank + 1) % rank_count, chunk_count);
}

}  // namespace mccl
