// The time of an algorithm in whole nanoseconds, from its closed-form costs (src/algorithms) and
// the costs of a link. Pure: every rank gets the same numbers from the same arguments.
//
// Pipelined programs (every hop forwards slice by slice what arrives), of M messages per rank:
//   M * max(alpha + slice/B + gamma*slice, bytes/B, o*slices + gamma*bytes)         [of one
//   message]
//     + (hops - M) * (alpha + slice/B + gamma*slice) + alpha
// All others:
//   hops*alpha + max(bytes/B, o*messages) + gamma*reduced                                [of all
//   hops]
// with o counted only where a rank sends more messages than there are hops: alpha contains one
// each. For the ring, whose M is its hops, the first is 2(N-1) max(alpha + slice/B, S/(N*B)) +
// alpha; for a chain, whose M is 1, it is S/B + (N-2) (alpha + slice/B) + alpha; for rotated
// all-pairs the second is 2*alpha + 2(N-1) max(S/(N*B), o); for recursive doubling log2(N) (alpha +
// S/B).
//
// A pipelined program of several phases takes the sum of theirs, with an alpha each: that phases
// overlap while one waits for latency is left out. Where uplinks are narrow, what passes the
// busiest one takes at least its time, on top of what nothing hides: fill, latency and reductions,
// and of several phases all but the last, which is the one between groups.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/catalog.h"
#include "planner/link_profile.h"

namespace mccl {

// The part of a pipelined cost that one phase makes, as below.
struct PhaseTerms {
  int64_t hop_count = 0;
  int64_t slice_bytes = 0;
  int64_t latency_ns = 0;
  int64_t wire_ns = 0;
  int64_t processor_ns = 0;
  int64_t total_ns = 0;
  bool operator==(const PhaseTerms&) const = default;
};

// The addends and the operands of the maximum, so that a cost can be explained. All in nanoseconds;
// values beyond int64_t saturate.
struct CostTerms {
  bool is_pipelined = false;
  int64_t hop_count = 0;     // pipelined: those that the rank's own messages take
  int64_t slice_bytes = 0;   // length of the equal slices in flight
  int64_t latency_ns = 0;    // pipelined: of one slice over one hop; else hops * alpha
  int64_t wire_ns = 0;       // bytes / B; pipelined: of one hop
  int64_t processor_ns = 0;  // o * messages (pipelined: of one hop, and its reductions)
  int64_t reduce_ns = 0;     // not pipelined: reduced bytes * gamma
  int64_t fill_ns = 0;       // pipelined: the other hops, of one slice, and the last alpha
  int64_t uplink_ns = 0;     // of all bytes through the busiest uplink; 0: none is narrow
  int64_t total_ns = 0;
  std::vector<PhaseTerms> phases = {};  // pipelined, of several phases: each; else empty
  bool operator==(const CostTerms&) const = default;
};

// What passes the busiest uplink, in its busier direction, and how wide it is.
struct UplinkLoad {
  Fraction bytes;  // over S
  int ports = 0;   // of B each; 0: never the limit
};

// `bytes` is S of AlgorithmCost. `slice_bytes` > 0 is the length wanted; slices are cut equally.
CostTerms estimate_cost(const AlgorithmCost& cost, const LinkCosts& link, int64_t bytes,
                        int64_t slice_bytes, const UplinkLoad& uplink = {});

// "46 hops x max(latency 355038 ns, wire 882287 ns, processor 85000 ns) + 306000 ns = 40891202 ns".
std::string to_string(const CostTerms& terms);

}  // namespace mccl
