// Algorithms as literal values, so that the planner's tests do not depend on the catalogue.
#pragma once

#include <array>
#include <bit>
#include <span>

#include "algorithms/catalog.h"

namespace mccl::literal {

inline Result<Program> build_nothing(int) {
  return Status(StatusCode::Unsupported, "no program");
}

inline AlgorithmCost ring_cost(int rank_count) {
  const int hops = 2 * (rank_count - 1);
  return {.hops = hops,
          .messages = hops,
          .recv_streams = 1,
          .bytes_moved = {hops, rank_count},
          .bytes_reduced = {rank_count - 1, rank_count},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

// Classical: other rank counts than powers of two fold in and out.
inline AlgorithmCost doubling_cost(int rank_count) {
  const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(rank_count))) - 1;
  const int hops = rounds + ((1 << rounds) == rank_count ? 0 : 2);
  return {.hops = hops,
          .messages = hops,
          .recv_streams = hops,
          .bytes_moved = {hops, 1},
          .bytes_reduced = {hops, 1},
          .scratch_bytes = {1, 1},
          .is_pipelined = false};
}

inline AlgorithmCost all_pairs_cost(int rank_count) {
  return {.hops = rank_count == 1 ? 0 : 2,
          .messages = 2 * (rank_count - 1),
          .recv_streams = 2 * (rank_count - 1),
          .bytes_moved = {2 * (rank_count - 1), rank_count},
          .bytes_reduced = {rank_count - 1, rank_count},
          .scratch_bytes = {rank_count - 1, rank_count},
          .is_pipelined = false};
}

inline AlgorithmCost gather_ring_cost(int rank_count) {
  return {.hops = rank_count - 1,
          .messages = rank_count - 1,
          .recv_streams = 1,
          .bytes_moved = {rank_count - 1, rank_count},
          .bytes_reduced = {0, 1},
          .scratch_bytes = {0, 1},
          .is_pipelined = true};
}

inline constexpr Algorithm kRing = {.name = "all_reduce_ring",
                                    .collective = Collective::AllReduce,
                                    .reference = "",
                                    .rank_count_max = 4096,
                                    .channel_sets = 4,
                                    .reduces_in_rank_order = false,
                                    .cost = &ring_cost,
                                    .build = &build_nothing};
inline constexpr Algorithm kDoubling = {.name = "all_reduce_recursive_doubling",
                                        .collective = Collective::AllReduce,
                                        .reference = "",
                                        .rank_count_max = 1024,
                                        .channel_sets = 1,
                                        .reduces_in_rank_order = false,
                                        .cost = &doubling_cost,
                                        .build = &build_nothing};
inline constexpr Algorithm kAllPairs = {.name = "all_reduce_all_pairs",
                                        .collective = Collective::AllReduce,
                                        .reference = "",
                                        .rank_count_max = 256,
                                        .channel_sets = 1,
                                        .reduces_in_rank_order = true,
                                        .cost = &all_pairs_cost,
                                        .build = &build_nothing};
inline constexpr Algorithm kGatherRing = {.name = "all_gather_ring",
                                          .collective = Collective::AllGather,
                                          .reference = "",
                                          .rank_count_max = 4096,
                                          .channel_sets = 4,
                                          .reduces_in_rank_order = false,
                                          .cost = &gather_ring_cost,
                                          .build = &build_nothing};

inline constexpr std::array<const Algorithm*, 4> kAll = {&kRing, &kDoubling, &kAllPairs,
                                                         &kGatherRing};
inline constexpr std::array<const Algorithm*, 2> kPapers = {&kRing, &kDoubling};
inline constexpr std::array<const Algorithm*, 1> kRingOnly = {&kRing};

}  // namespace mccl::literal
