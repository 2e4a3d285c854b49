// What a call is, packed into the bytes that every frame carries, and the words for two that differ
// (law L9). Transport only compares; the meaning is here.
#pragma once

#include <cstdint>
#include <string>

#include "mccl/types.h"
#include "transport/frame.h"

namespace mccl {

struct CallSummary {
  Collective collective = Collective::AllReduce;
  DataType dtype = DataType::Float32;
  ReduceOp op = ReduceOp::Sum;
  int root = 0;
  int64_t count = 0;  // S in elements (src/algorithms/catalog.h); 0 for all_to_all
  uint32_t plan_hash = 0;
  uint32_t lengths_hash = 0;  // of blocks whose lengths every rank names; else 0
  bool is_barrier = false;    // an all_reduce that the caller knows as a barrier
  bool operator==(const CallSummary&) const = default;
};

Fingerprint pack_fingerprint(const CallSummary& call);
// Values outside the enums stay as they came; words for them are numbers.
CallSummary unpack_fingerprint(const Fingerprint& fingerprint);

// "all_reduce(float32, sum, 8 elements)"; what a collective does not have is left out.
std::string describe_call(const Fingerprint& fingerprint);

// Both calls, and the fields that differ in two columns: "operation 3 differs between rank 0 and
// rank 1: all_reduce(float32, sum, 8 elements) against barrier(): collective all_reduce against
// barrier; all ranks ...".
std::string describe_mismatch(uint64_t sequence, int own_rank, const Fingerprint& own,
                              int peer_rank, const Fingerprint& peer);

}  // namespace mccl
