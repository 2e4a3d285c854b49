#include "verify/places.h"

namespace mccl::judge {

Places::Places(const Program& program, bool in_place) : program_(program), in_place_(in_place) {
  Place next = 0;
  for (int rank = 0; rank < program.rank_count(); ++rank) {
    for (const Buffer buffer : {Buffer::Input, Buffer::Output, Buffer::Scratch}) {
      first_.push_back(next);
      next += buffer_chunk_count(program, rank, buffer);
    }
  }
  first_.push_back(next);
}

Place Places::first_place(const Span& span) const {
  const bool is_alias = in_place_ && span.buffer == Buffer::Input;
  const Buffer buffer = is_alias ? Buffer::Output : span.buffer;
  const int index = is_alias ? input_alias(program_, span.rank, span.index) : span.index;
  return first_[static_cast<size_t>(span.rank) * 3 + static_cast<size_t>(buffer)] + index;
}

int Places::origin_of_chunk(const Span& span, int offset) const {
  switch (span.buffer) {
    case Buffer::Input:
      return input_alias(program_, span.rank, span.index + offset);
    case Buffer::Output:
      return span.index + offset;
    case Buffer::Scratch:
      return kNoOrigin;
  }
  return kNoOrigin;
}

}  // namespace mccl::judge
