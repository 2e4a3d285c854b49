// See xml_structure.h. Costs one pass over the program; sums are 64 bits wide because the program
// may come from an untrusted text or from a caller who ignored every limit.
#include "ir/xml_structure.h"

#include <algorithm>

#include "ir/collective.h"
#include "ir/opcode.h"
#include "ir/xml.h"

namespace mccl {
namespace {

class StructureCheck {
 public:
  StructureCheck(const Program& program, const XmlStructureReport& report)
      : program_(program), report_(report) {}

  void check_program();

 private:
  void check_root();
  void check_contract();
  void check_contribution(const Contribution& part, const Contribution* previous);
  void check_largest_buffer(int rank_count);
  void check_lane(const Lane& lane);
  void check_peer(int peer, XmlField field, const char* direction);
  void check_step(const Lane& lane, const Step& step);
  void check_operand_count(const Step& step, XmlField field, int wanted, size_t found);
  void check_span(const Span& span, XmlField field);
  void check_span_lengths(const Step& step);
  void check_dependences(const Step& step);
  int64_t chunk_count_of(Buffer buffer) const;
  void add(XmlField field, std::string text) {
    place_.field = field;
    report_(place_, std::move(text));
  }

  const Program& program_;
  const XmlStructureReport& report_;
  XmlPlace place_;
};

std::string range_text(int64_t value, int64_t min, int64_t max) {
  return std::to_string(value) + " is outside " + std::to_string(min) + ".." + std::to_string(max);
}

void StructureCheck::check_program() {
  check_root();
  for (const RankProgram& rank : program_.ranks) {
    ++place_.rank;
    if (rank.scratch_chunk_count < 0 || rank.scratch_chunk_count > kXmlChunksMax)
      add(XmlField::Scratch,
          "scratch chunk count " + range_text(rank.scratch_chunk_count, 0, kXmlChunksMax));
    for (const Lane& lane : rank.lanes) {
      ++place_.lane;
      check_lane(lane);
      for (const Step& step : lane.steps) {
        ++place_.step;
        check_step(lane, step);
      }
      place_.step = -1;
    }
    place_.lane = -1;
  }
}

void StructureCheck::check_root() {
  const auto is_printable = [](char byte) { return byte >= ' ' && byte <= '~'; };
  if (!std::all_of(program_.name.begin(), program_.name.end(), is_printable))
    add(XmlField::Name, "the name has bytes that are not printable ASCII");
  if (program_.name.size() > kXmlNameBytesMax)
    add(XmlField::Name, "the name has " + std::to_string(program_.name.size()) +
                            " bytes, more than " + std::to_string(kXmlNameBytesMax));
  const auto rank_count = static_cast<int64_t>(program_.ranks.size());
  if (rank_count < 1 || rank_count > kXmlRanksMax)
    add(XmlField::Ranks, "rank count " + range_text(rank_count, 1, kXmlRanksMax));
  if (program_.chunk_count < 1 || program_.chunk_count > kXmlChunksMax)
    add(XmlField::Chunks, "chunk count " + range_text(program_.chunk_count, 1, kXmlChunksMax));
  else if (rank_count <= kXmlRanksMax)
    check_largest_buffer(static_cast<int>(rank_count));
  check_contract();
  if (!program_.in_place && !program_.out_of_place)
    add(XmlField::Claims, "the program serves neither in-place nor out-of-place calls");
}

// The readers give every rank a promise; values made by hand may lack them.
void StructureCheck::check_contract() {
  const bool is_custom = program_.collective == Collective::Custom;
  if (program_.contract.size() != (is_custom ? program_.ranks.size() : 0)) {
    add(XmlField::Ranks, "the contract is for " + std::to_string(program_.contract.size()) +
                             " ranks, not " +
                             std::to_string(is_custom ? program_.ranks.size() : 0));
    return;
  }
  if (is_custom && program_.chunk_count != 1)
    add(XmlField::Chunks,
        "a custom collective has 1 chunk per block, not " + std::to_string(program_.chunk_count));
  if (is_custom && program_.in_place)
    add(XmlField::Claims, "a custom collective has no in-place form");
  for (size_t rank = 0; rank < program_.contract.size(); ++rank) {
    place_.rank = static_cast<int>(rank);
    const CustomRank& promise = program_.contract[rank];
    if (promise.input_chunk_count < 0 || promise.input_chunk_count > kXmlChunksMax)
      add(XmlField::Outputs,
          "input chunk count " + range_text(promise.input_chunk_count, 0, kXmlChunksMax));
    for (const std::vector<Contribution>& wanted : promise.outputs)
      for (size_t part = 0; part < wanted.size(); ++part)
        check_contribution(wanted[part], part > 0 ? &wanted[part - 1] : nullptr);
  }
  place_.rank = -1;
}

void StructureCheck::check_contribution(const Contribution& part, const Contribution* previous) {
  const std::string name = std::to_string(part.rank) + ":" + std::to_string(part.index);
  if (part.rank < 0 || static_cast<size_t>(part.rank) >= program_.contract.size() ||
      part.index < 0 ||
      part.index >= program_.contract[static_cast<size_t>(part.rank)].input_chunk_count)
    add(XmlField::Outputs, "promise " + name + " names no input chunk");
  else if (previous != nullptr && !(*previous < part))
    add(XmlField::Outputs, "promise " + name + " is not in ascending order or there twice");
}

void StructureCheck::check_largest_buffer(int rank_count) {
  if (program_.collective == Collective::Custom) return;  // its sizes are those of its contract
  const int blocks = size_block_count(program_.collective, rank_count);
  const int64_t chunk_count = int64_t{blocks} * program_.chunk_count;
  if (chunk_count <= kXmlChunksMax) return;
  const bool is_output = blocks == block_count(program_, Buffer::Output, 0);
  add(XmlField::Chunks, std::string("the ") + (is_output ? "output" : "input") +
                            " of each rank has " + std::to_string(chunk_count) +
                            " chunks, more than " + std::to_string(kXmlChunksMax));
}

void StructureCheck::check_lane(const Lane& lane) {
  check_peer(lane.send_peer, XmlField::Send, "send");
  check_peer(lane.recv_peer, XmlField::Recv, "recv");
  if (lane.channel < 0 || lane.channel > kXmlChannelMax)
    add(XmlField::Channel, "channel " + range_text(lane.channel, 0, kXmlChannelMax));
}

void StructureCheck::check_peer(int peer, XmlField field, const char* direction) {
  if (peer < -1 || peer >= program_.rank_count())
    add(field, std::string(direction) + " peer " + range_text(peer, -1, program_.rank_count() - 1));
  else if (peer == place_.rank)
    add(field, std::string(direction) + " peer " + std::to_string(peer) + " is the rank itself");
}

void StructureCheck::check_step(const Lane& lane, const Step& step) {
  const OpcodeRow& row = opcode_row(step.opcode);
  if (row.receives && lane.recv_peer == -1)
    add(XmlField::Op, std::string(row.spelling) + " receives, but its lane has no recv peer");
  if (row.sends && lane.send_peer == -1)
    add(XmlField::Op, std::string(row.spelling) + " sends, but its lane has no send peer");
  check_operand_count(step, XmlField::Sources, row.reads, step.sources.size());
  check_operand_count(step, XmlField::Destinations, row.writes, step.destinations.size());
  for (const Span& span : step.sources) check_span(span, XmlField::Source);
  for (const Span& span : step.destinations) check_span(span, XmlField::Destination);
  check_span_lengths(step);
  check_dependences(step);
}

void StructureCheck::check_operand_count(const Step& step, XmlField field, int wanted,
                                         size_t found) {
  const bool is_right = wanted < 0 ? found > 0 : found == static_cast<size_t>(wanted);
  if (is_right) return;
  add(field, std::string(opcode_row(step.opcode).spelling) + " has " + std::to_string(found) +
                 (field == XmlField::Sources ? " sources" : " destinations") + ", not " +
                 (wanted < 0 ? "one or more" : std::to_string(wanted)));
}

void StructureCheck::check_span(const Span& span, XmlField field) {
  if (span.rank != place_.rank) {
    add(field, std::string(buffer_name(span.buffer)) + " of rank " + std::to_string(span.rank) +
                   ": a program cannot name another rank's memory");
    return;
  }
  const int64_t end = int64_t{span.index} + span.count;
  const int64_t chunk_count = chunk_count_of(span.buffer);
  if (span.index < 0 || span.count < 1)
    add(field, "a span of " + std::to_string(span.count) + " chunks at index " +
                   std::to_string(span.index));
  else if (end > chunk_count)
    add(field, "chunk " + std::to_string(end - 1) + " is past the end of " +
                   buffer_name(span.buffer) + ", which has " + std::to_string(chunk_count) +
                   " chunks");
}

void StructureCheck::check_span_lengths(const Step& step) {
  const Span* first = nullptr;
  for (const std::vector<Span>* spans : {&step.sources, &step.destinations}) {
    for (const Span& span : *spans) {
      if (first == nullptr) first = &span;
      if (span.count == first->count) continue;
      add(XmlField::Counts, "spans of " + std::to_string(first->count) + " and " +
                                std::to_string(span.count) + " chunks in one step");
      return;
    }
  }
}

void StructureCheck::check_dependences(const Step& step) {
  const std::vector<Lane>& lanes = program_.ranks[static_cast<size_t>(place_.rank)].lanes;
  const StepRef* previous = nullptr;
  for (const StepRef& ref : step.dependences) {
    const std::string name = std::to_string(ref.lane) + ":" + std::to_string(ref.step);
    if (ref.lane < 0 || static_cast<size_t>(ref.lane) >= lanes.size())
      add(XmlField::Depends,
          "dependence " + name + " names no lane: the rank has " + std::to_string(lanes.size()));
    else if (ref.lane == place_.lane)
      add(XmlField::Depends, "dependence " + name + " is on the step's own lane");
    else if (const std::vector<Step>& steps = lanes[static_cast<size_t>(ref.lane)].steps;
             ref.step < 0 || static_cast<size_t>(ref.step) >= steps.size())
      add(XmlField::Depends,
          "dependence " + name + " names no step: the lane has " + std::to_string(steps.size()));
    if (previous != nullptr && *previous == ref)
      add(XmlField::Depends, "dependence " + name + " is listed twice");
    else if (previous != nullptr && *previous > ref)
      add(XmlField::Depends, "dependence " + name + " is not in ascending order");
    previous = &ref;
  }
}

int64_t StructureCheck::chunk_count_of(Buffer buffer) const {
  if (buffer == Buffer::Scratch)
    return program_.ranks[static_cast<size_t>(place_.rank)].scratch_chunk_count;
  return int64_t{block_count(program_, buffer, place_.rank)} * program_.chunk_count;
}

}  // namespace

void check_xml_structure(const Program& program, const XmlStructureReport& report) {
  StructureCheck(program, report).check_program();
}

std::string to_string(const XmlPlace& place) {
  if (place.rank < 0) return "";
  std::string text = "rank " + std::to_string(place.rank);
  if (place.lane >= 0) text += " lane " + std::to_string(place.lane);
  if (place.step >= 0) text += " step " + std::to_string(place.step);
  return text + ": ";
}

}  // namespace mccl
