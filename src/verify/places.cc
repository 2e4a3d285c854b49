#include "verify/places.h"

#include <algorithm>

#include "ir/collective.h"

namespace mccl::judge {

Places::Places(const Program& program, bool in_place) : program_(program), in_place_(in_place) {
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    const int inputs = buffer_chunk_count(program, rank, Buffer::Input);
    const int outputs = buffer_chunk_count(program, rank, Buffer::Output);
    const std::optional<int> shift = in_place ? in_place_shift(program, rank) : std::nullopt;
    // In place the two lie over one another: the one that begins earlier comes first.
    Place input = place_count_;
    Place output = input + inputs;
    if (shift) {
      output = place_count_ + std::max(0, -*shift);
      input = output + *shift;
    }
    const Place scratch = std::max(input + inputs, output + outputs);
    first_.insert(first_.end(), {input, output, scratch});
    place_count_ = scratch + buffer_chunk_count(program, rank, Buffer::Scratch);
  }
}

Place Places::first_place(const Span& span) const {
  return first_[static_cast<size_t>(span.rank) * 3 + static_cast<size_t>(span.buffer)] + span.index;
}

int Places::origin_of_chunk(const Span& span, int offset) const {
  if (span.buffer == Buffer::Scratch) return kNoOrigin;
  const int index = span.index + offset;
  const int block = origin_block(program_, span.buffer, span.rank, index / program_.chunk_count);
  return block * program_.chunk_count + index % program_.chunk_count;
}

}  // namespace mccl::judge
