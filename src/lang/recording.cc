#include "lang/recording.h"

#include <algorithm>

#include "ir/collective.h"

namespace mccl::lang {

void Recording::add(StatementKind kind, const std::vector<Chunk>& sources,
                    const std::vector<Chunk>& destinations, Placement placement, SourceLine line) {
  Statement statement;
  statement.kind = kind;
  statement.first_span = spans.count();
  statement.source_count = static_cast<int>(sources.size());
  statement.destination_count = static_cast<int>(destinations.size());
  statement.placement = placement;
  statement.line = line;
  for (const auto* chunks : {&sources, &destinations})
    for (const Chunk& chunk : *chunks)
      spans.push_back({chunk.rank, chunk.buffer, chunk.index, chunk.count});
  statements.push_back(statement);
}

SlotMap::SlotMap(const Program& shape, bool is_merged) {
  for (int rank = 0; rank < shape.rank_count(); ++rank) {
    const int inputs = buffer_chunk_count(shape, rank, Buffer::Input);
    const int outputs = buffer_chunk_count(shape, rank, Buffer::Output);
    const std::optional<int> shift = is_merged ? in_place_shift(shape, rank) : std::nullopt;
    Base base{.input = count_ + outputs, .output = count_};
    if (shift) {
      base.output = count_ + std::max(0, -*shift);
      base.input = base.output + *shift;
    }
    base.scratch = std::max(base.input + inputs, base.output + outputs);
    count_ = base.scratch + buffer_chunk_count(shape, rank, Buffer::Scratch);
    bases_.push_back(base);
  }
}

std::string fault_text(const SourceLine& line, const std::string& text) {
  return std::string(line.file) + ":" + std::to_string(line.line) + ": " + text;
}

}  // namespace mccl::lang
