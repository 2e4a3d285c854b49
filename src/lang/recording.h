// What the author wrote: the statements in their order, flat. ProgramBuilder fills it, check()
// judges it, and everything behind lower() reads it.
#pragma once

#include <string>

#include "lang/indexed.h"
#include "mccl/language.h"

namespace mccl::lang {

enum class StatementKind : uint8_t { Copy, Reduce, Fold };

// Spans lie in Recording::spans, sources first. Reduce has the sources moving, staying.
struct Statement {
  StatementKind kind = StatementKind::Copy;
  int first_span = 0;
  int source_count = 0;
  int destination_count = 0;
  Placement placement;
  SourceLine line;
};

struct Recording {
  Program shape;  // everything but the ranks' lanes
  bool is_fusion_on = true;
  bool has_early_waits = false;
  int instance_count = 1;
  InstanceLayout layout = InstanceLayout::Interleaved;
  Indexed<Span> spans;
  Indexed<Statement> statements;

  const Span& source(const Statement& statement, int index) const {
    return spans[statement.first_span + index];
  }
  const Span& destination(const Statement& statement, int index) const {
    return spans[statement.first_span + statement.source_count + index];
  }
  void add(StatementKind kind, const std::vector<Chunk>& sources,
           const std::vector<Chunk>& destinations, Placement placement, SourceLine line);
};

// Numbers the chunks of all buffers of all ranks. Merged: an input chunk has the number of the
// output chunk it aliases in place. Neighbouring chunks of a span always have neighbouring numbers.
class SlotMap {
 public:
  SlotMap(const Program& shape, bool is_merged);

  int first(const Span& span) const {
    const Base& base = bases_[span.rank];
    switch (span.buffer) {
      case Buffer::Output:
        return base.output + span.index;
      case Buffer::Input:
        return base.input + span.index;
      case Buffer::Scratch:
        return base.scratch + span.index;
    }
    return -1;
  }
  int count() const { return count_; }

 private:
  struct Base {
    int input = 0;
    int output = 0;
    int scratch = 0;
  };
  Indexed<Base> bases_;
  int count_ = 0;
};

// "file:line: text", the form of every fault.
std::string fault_text(const SourceLine& line, const std::string& text);

}  // namespace mccl::lang
