#include "lang/recording.h"

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
    Base base;
    base.output = count_;
    count_ += buffer_chunk_count(shape, rank, Buffer::Output);
    base.input = base.output + input_alias(shape, rank, 0);
    if (!is_merged) {
      base.input = count_;
      count_ += buffer_chunk_count(shape, rank, Buffer::Input);
    }
    base.scratch = count_;
    count_ += buffer_chunk_count(shape, rank, Buffer::Scratch);
    bases_.push_back(base);
  }
}

std::string fault_text(const SourceLine& line, const std::string& text) {
  return std::string(line.file) + ":" + std::to_string(line.line) + ": " + text;
}

}  // namespace mccl::lang
