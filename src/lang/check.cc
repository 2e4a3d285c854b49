// Checks of what the author wrote, each fault with the author's line. A statement with a fault is
// taken to have written its destinations, so that one mistake gives one message and not one for
// every later statement that reads them.
//
// Overlap is judged under both views of a call: with input and output apart, and, where the program
// claims to serve it, with input lying in the output.
#include "lang/check.h"

#include <algorithm>

#include "ir/collective.h"

namespace mccl::lang {
namespace {

enum class Overlap : uint8_t { None, Equal, Partial };

std::string place(const Span& span) {
  return to_string(span) + " of rank " + std::to_string(span.rank);
}

class Checker {
 public:
  explicit Checker(Recording& recording) : recording_(recording) {}

  std::vector<std::string> run() {
    check_shape();
    if (!faults_.empty()) return std::move(faults_);
    Indexed<uint8_t> is_shaped;
    for (current_ = 0; current_ < recording_.statements.count(); ++current_) {
      const Statement& statement = recording_.statements[current_];
      is_shaped.push_back(check_spans(statement) && check_ranks(statement));
      check_placement(statement.placement);
    }
    const SlotMap split(recording_.shape, false);
    const SlotMap merged(recording_.shape, true);
    split_ = &split;
    merged_ = &merged;
    mark_arguments_written();
    for (current_ = 0; current_ < recording_.statements.count(); ++current_)
      check_values(recording_.statements[current_], is_shaped[current_] != 0);
    std::stable_sort(numbered_.begin(), numbered_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [statement, text] : numbered_) faults_.push_back(std::move(text));
    return std::move(faults_);
  }

 private:
  void fault(const std::string& text) {
    numbered_.emplace_back(current_, fault_text(recording_.statements[current_].line, text));
  }

  void check_shape() {
    const Program& shape = recording_.shape;
    const auto add = [&](const std::string& text) { faults_.push_back(shape.name + ": " + text); };
    if (shape.rank_count() < 1) add("a program needs at least one rank");
    if (shape.chunk_count < 1) add("a program needs at least one chunk");
    for (const CustomRank& promise : shape.contract)
      if (promise.input_chunk_count < 0) add("a rank cannot have less than no input chunks");
    if (!shape.in_place && !shape.out_of_place)
      add("a program must serve in-place or out-of-place calls");
    if (shape.in_place && shape.rank_count() > 0 && !in_place_shift(shape, 0))
      add(std::string(collective_name(shape.collective)) +
          " has no in-place calls; say serve(false, true)");
  }

  int64_t chunk_limit(const Span& span) const {
    return span.buffer == Buffer::Scratch
               ? kScratchChunksMax
               : buffer_chunk_count(recording_.shape, span.rank, span.buffer);
  }

  bool is_inside(const Span& span) const {
    return span.rank >= 0 && span.rank < recording_.shape.rank_count() && span.count >= 1 &&
           span.index >= 0 && int64_t{span.index} + span.count <= chunk_limit(span);
  }

  bool check_span(const Span& span) {
    const Program& shape = recording_.shape;
    if (span.rank < 0 || span.rank >= shape.rank_count()) {
      fault("rank " + std::to_string(span.rank) + " is not one of the " +
            std::to_string(shape.rank_count()) + " ranks");
      return false;
    }
    if (!is_inside(span)) {
      fault(place(span) + " is not inside the " + std::to_string(chunk_limit(span)) +
            " chunks of " + buffer_name(span.buffer));
      return false;
    }
    if (span.buffer == Buffer::Scratch) {
      int& scratch = recording_.shape.ranks[static_cast<size_t>(span.rank)].scratch_chunk_count;
      scratch = std::max(scratch, span.index + span.count);
    }
    return true;
  }

  bool check_spans(const Statement& statement) {
    const int count = statement.source_count + statement.destination_count;
    if (statement.source_count < 1 || statement.destination_count < 1) {
      fault("a fold needs at least one source and one destination");
      return false;
    }
    bool is_right = true;
    for (int index = 0; index < count; ++index)
      is_right = check_span(recording_.spans[statement.first_span + index]) && is_right;
    if (!is_right) return false;
    const Span& first = recording_.spans[statement.first_span];
    for (int index = 1; index < count; ++index) {
      const Span& span = recording_.spans[statement.first_span + index];
      if (span.count == first.count) continue;
      fault(place(first) + " and " + place(span) + " differ in their number of chunks");
      return false;
    }
    return true;
  }

  bool check_ranks(const Statement& statement) {
    const Span& result = recording_.destination(statement, 0);
    if (statement.kind == StatementKind::Reduce) {
      const Span& staying = recording_.source(statement, 1);
      if (staying.rank == result.rank) return true;
      fault("the result " + place(result) + " is not on the rank of " + place(staying));
      return false;
    }
    if (statement.kind == StatementKind::Copy) return true;
    for (int index = 0; index < statement.source_count + statement.destination_count; ++index) {
      const Span& span = recording_.spans[statement.first_span + index];
      if (span.rank == result.rank) continue;
      fault("a fold is local, but " + place(span) + " and " + place(result) + " are on two ranks");
      return false;
    }
    return true;
  }

  void check_placement(const Placement& placement) {
    if (placement.channel < -1 || placement.channel > kChannelMax)
      fault("channel " + std::to_string(placement.channel) + " is not in 0.." +
            std::to_string(kChannelMax));
    for (const int key : {placement.send_lane, placement.recv_lane})
      if (key < -1) fault("lane key " + std::to_string(key) + " is negative");
  }

  void mark_arguments_written() {
    const Program& shape = recording_.shape;
    is_written_.assign(static_cast<size_t>(split_->count()), 0);
    for (int rank = 0; rank < shape.rank_count(); ++rank) {
      if (!holds_input(shape, rank)) continue;
      const int count = buffer_chunk_count(shape, rank, Buffer::Input);
      for (int index = 0; index < count; ++index) {
        is_written_[split_->first({rank, Buffer::Input, index, 1})] = 1;
        const int alias = input_alias(shape, rank, index);
        if (!shape.out_of_place && alias >= 0)
          is_written_[split_->first({rank, Buffer::Output, alias, 1})] = 1;
      }
    }
  }

  static Overlap overlap(int first, int second, int count) {
    if (first == second) return Overlap::Equal;
    return first < second + count && second < first + count ? Overlap::Partial : Overlap::None;
  }

  void check_apart(const Span& first, const Span& second, bool may_be_equal) {
    if (first.rank != second.rank) return;
    const Overlap split = overlap(split_->first(first), split_->first(second), first.count);
    if (split == Overlap::Partial || (split == Overlap::Equal && !may_be_equal)) {
      fault(place(first) + " and " + place(second) + " overlap");
    } else if (recording_.shape.in_place && overlap(merged_->first(first), merged_->first(second),
                                                    first.count) == Overlap::Partial) {
      fault(place(first) + " and " + place(second) + " overlap partly in an in-place call");
    }
  }

  void check_overlaps(const Statement& statement) {
    const bool is_copy = statement.kind == StatementKind::Copy;
    if (statement.kind == StatementKind::Reduce)
      check_apart(recording_.source(statement, 0), recording_.source(statement, 1), false);
    for (int to = 0; to < statement.destination_count; ++to) {
      const Span& destination = recording_.destination(statement, to);
      for (int from = 0; from < statement.source_count; ++from)
        check_apart(recording_.source(statement, from), destination, !is_copy);
      for (int other = 0; other < to; ++other)
        check_apart(recording_.destination(statement, other), destination, false);
    }
  }

  void check_values(const Statement& statement, bool is_shaped) {
    if (is_shaped) {
      check_overlaps(statement);
      for (int from = 0; from < statement.source_count; ++from)
        check_written(recording_.source(statement, from));
    }
    for (int to = 0; to < statement.destination_count; ++to) {
      const Span& span = recording_.destination(statement, to);
      if (!is_inside(span)) continue;
      std::fill_n(is_written_.begin() + split_->first(span), span.count, uint8_t{1});
      if (span.buffer != Buffer::Input) continue;
      if (recording_.shape.out_of_place)
        fault(place(span) + " is written, but the program claims to serve out-of-place calls");
      else if (input_alias(recording_.shape, span.rank, span.index) == -1 ||
               input_alias(recording_.shape, span.rank, span.index + span.count - 1) == -1)
        fault(place(span) + " is written, but is not part of the output of an in-place call");
    }
  }

  void check_written(const Span& span) {
    for (int index = 0; index < span.count; ++index) {
      if (is_written_[split_->first(span) + index]) continue;
      fault(place({span.rank, span.buffer, span.index + index, 1}) +
            " is read before anything was written to it");
      return;
    }
  }

  Recording& recording_;
  const SlotMap* split_ = nullptr;
  const SlotMap* merged_ = nullptr;
  int current_ = 0;  // statement
  Indexed<uint8_t> is_written_;
  std::vector<std::string> faults_;
  std::vector<std::pair<int, std::string>> numbered_;  // statement, text
};

}  // namespace

std::vector<std::string> check(Recording& recording) {
  return Checker(recording).run();
}

}  // namespace mccl::lang
