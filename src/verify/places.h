// Memory as the program sees it under one aliasing: every chunk of every buffer of every rank has a
// number, and an input chunk has that of the output chunk that it aliases when the call is in
// place. Neighbouring chunks of a buffer always have neighbouring numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/proven_program.h"
#include "mccl/program.h"

namespace mccl::judge {

using Place = int32_t;

class Places {
 public:
  // The program must have passed check_structure() and outlive this.
  Places(const Program& program, bool in_place);

  Place place_count() const { return place_count_; }
  // The places of a span are this one and the next span.count - 1.
  Place first_place(const Span& span) const;

  // Origins as numbers, and the chunk of input or output that a place is; kNoOrigin for scratch,
  // whose slots fit any chunk.
  static constexpr int kNoOrigin = -1;
  int origin_of_chunk(const Span& span, int offset) const;
  Origin origin(int number) const {
    return {number / program_.chunk_count, number % program_.chunk_count};
  }

  bool is_in_place() const { return in_place_; }

 private:
  const Program& program_;
  bool in_place_;
  std::vector<Place> first_;  // [rank * 3 + buffer]
  Place place_count_ = 0;
};

}  // namespace mccl::judge
