// A rank of a float32 sum by ring all-reduce in place, moved from outside: once through the library
// with its interpreter, once written by hand over the same streams.
#pragma once

#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "mccl/store.h"
#include "mccl/wire.h"

namespace mccl {

// Slices and what may be in the air, for both kinds of rank.
constexpr int64_t kRingSliceBytes = 64 * 1024;
constexpr int64_t kRingWindowBytes = 128 * 1024;

class RingRank {
 public:
  virtual ~RingRank() = default;
  // Meets the ranks that have been made; all of them exist when this is called.
  virtual void meet() = 0;
  // Starts one all-reduce; the one before it is done.
  virtual void begin(float* data, int64_t count) = 0;
  virtual bool is_done() const = 0;
  // Does what is possible now; does not block.
  virtual void step() = 0;
};

// Wires, clock and store outlive the rank.
std::unique_ptr<RingRank> make_engine_rank(WireContext& wires, const Clock& clock, Store& store,
                                           int rank, int rank_count);
std::unique_ptr<RingRank> make_hand_rank(WireContext& wires, const Clock& clock, Store& store,
                                         int rank, int rank_count);

// How a buffer is cut by both.
struct RingCut {
  int64_t iterations;
  int64_t instances;
  int64_t slice_elements;
};
RingCut cut_ring(int64_t count, int rank_count);

}  // namespace mccl
