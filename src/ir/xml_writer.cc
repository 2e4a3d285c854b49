// Writing programs, in both dialects, byte for byte the same for the same program: attributes in
// one fixed order, two blanks per level, every line ended, nothing optional written when it is
// empty.
//
// A program is checked before anything is written, against the same rules as on reading, so
// whatever is written reads back equal. MSCCL's dialect says less than ours; what it cannot say, or
// what its loaders store in a number that is too small, is refused with its place. Grammar:
// docs/ir.md.
#include <algorithm>

#include "ir/collective.h"
#include "ir/opcode.h"
#include "ir/xml.h"
#include "ir/xml_dialects.h"
#include "ir/xml_use.h"

namespace mccl {
namespace {

// MSCCL's own limits: loaders refuse or silently damage what exceeds them.
constexpr int kMscclCountMax = 71;
constexpr int kMscclChannelMax = 31;
constexpr int kMscclOffsetMax = 32767;        // 16 bits
constexpr int kMscclDependenceLaneMax = 127;  // 8 bits

// Elements and attributes, one element a line.
class XmlEmitter {
 public:
  void begin(std::string_view name) {
    text_.append(depth_ * 2, ' ');
    text_ += '<';
    text_ += name;
  }
  void attribute(std::string_view name, std::string_view value);
  void attribute(std::string_view name, int64_t value) { attribute(name, std::to_string(value)); }
  void end_without_children() { text_ += "/>\n"; }
  void begin_children() {
    text_ += ">\n";
    ++depth_;
  }
  void end_children(std::string_view name) {
    --depth_;
    text_.append(depth_ * 2, ' ');
    text_ += "</" + std::string(name) + ">\n";
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  size_t depth_ = 0;
};

void XmlEmitter::attribute(std::string_view name, std::string_view value) {
  text_ += ' ';
  text_ += name;
  text_ += "=\"";
  for (const char byte : value) {
    switch (byte) {
      case '&':
        text_ += "&amp;";
        break;
      case '<':
        text_ += "&lt;";
        break;
      case '>':
        text_ += "&gt;";
        break;
      case '"':
        text_ += "&quot;";
        break;
      default:
        text_ += byte;
    }
  }
  text_ += '"';
}

// ---- Our dialect ----

std::string spans_text(const std::vector<Span>& spans) {
  std::string text;
  for (const Span& span : spans) {
    if (!text.empty()) text += ' ';
    text += buffer_letter(span.buffer);
    text += ":" + std::to_string(span.index);
    if (span.count != 1) text += "*" + std::to_string(span.count);
  }
  return text;
}

void write_mccl_step(const Step& step, int number, XmlEmitter* xml) {
  xml->begin("step");
  xml->attribute("id", number);
  xml->attribute("op", opcode_row(step.opcode).spelling);
  if (!step.sources.empty()) xml->attribute("src", spans_text(step.sources));
  if (!step.destinations.empty()) xml->attribute("dst", spans_text(step.destinations));
  std::string dependences;
  for (const StepRef& ref : step.dependences) {
    if (!dependences.empty()) dependences += ' ';
    dependences += std::to_string(ref.lane) + ":" + std::to_string(ref.step);
  }
  if (!dependences.empty()) xml->attribute("depends", dependences);
  xml->end_without_children();
}

void write_mccl_lane(const Lane& lane, int number, XmlEmitter* xml) {
  xml->begin("lane");
  xml->attribute("id", number);
  xml->attribute("send", lane.send_peer);
  xml->attribute("recv", lane.recv_peer);
  xml->attribute("channel", lane.channel);
  if (lane.steps.empty()) return xml->end_without_children();
  xml->begin_children();
  int step_number = 0;
  for (const Step& step : lane.steps) write_mccl_step(step, step_number++, xml);
  xml->end_children("lane");
}

void write_selection(const ProgramUse& use, XmlEmitter* xml) {
  if (use.priority != 0) xml->attribute("priority", use.priority);
  if (!use.topology.empty()) xml->attribute("topology", use.topology);
  if (use.version != 0) xml->attribute("version", use.version);
}

void write_mccl_use(const ProgramUse& use, XmlEmitter* xml) {
  if (use.begin_bytes != 0) xml->attribute("min_bytes", use.begin_bytes);
  if (use.end_bytes != ProgramUse::kEndless) xml->attribute("max_bytes", use.end_bytes - 1);
  if (use.protocol != ProgramProtocol::Simple)
    xml->attribute("protocol", mccl_protocol_name(use.protocol));
  write_selection(use, xml);
}

std::string write_mccl(const Program& program, const ProgramUse& use) {
  XmlEmitter xml;
  xml.begin("program");
  xml.attribute("name", program.name);
  xml.attribute("collective", collective_name(program.collective));
  xml.attribute("ranks", program.rank_count());
  xml.attribute("chunks", program.chunk_count);
  xml.attribute("in_place", program.in_place ? "true" : "false");
  xml.attribute("out_of_place", program.out_of_place ? "true" : "false");
  write_mccl_use(use, &xml);
  xml.begin_children();
  int rank_number = 0;
  for (const RankProgram& rank : program.ranks) {
    xml.begin("rank");
    xml.attribute("id", rank_number++);
    if (program.collective == Collective::Custom) {
      const CustomRank& promise = program.contract[static_cast<size_t>(rank_number - 1)];
      xml.attribute("input_chunks", promise.input_chunk_count);
      xml.attribute("outputs", write_outputs(promise));
    }
    xml.attribute("scratch_chunks", rank.scratch_chunk_count);
    if (rank.lanes.empty()) {
      xml.end_without_children();
      continue;
    }
    xml.begin_children();
    int lane_number = 0;
    for (const Lane& lane : rank.lanes) write_mccl_lane(lane, lane_number++, &xml);
    xml.end_children("rank");
  }
  xml.end_children("program");
  return xml.take();
}

// ---- MSCCL's dialect ----

Status unsupported(const XmlPlace& place, const std::string& text) {
  return Status(StatusCode::Unsupported, to_string(place) + text);
}

Status check_msccl_step(const Step& step, const XmlPlace& place) {
  const OpcodeRow& row = opcode_row(step.opcode);
  if (row.msccl.empty())
    return unsupported(place, "MSCCL has no instruction " + std::string(row.spelling));
  for (const std::vector<Span>* spans : {&step.sources, &step.destinations}) {
    for (const Span& span : *spans) {
      if (span.count > kMscclCountMax)
        return unsupported(place, "a span of " + std::to_string(span.count) +
                                      " chunks; MSCCL's cnt is at most " +
                                      std::to_string(kMscclCountMax));
      if (span.index > kMscclOffsetMax)
        return unsupported(place, "chunk index " + std::to_string(span.index) +
                                      "; MSCCL's offsets are at most " +
                                      std::to_string(kMscclOffsetMax));
    }
  }
  for (const StepRef& ref : step.dependences)
    if (ref.lane > kMscclDependenceLaneMax)
      return unsupported(place, "a dependence on lane " + std::to_string(ref.lane) +
                                    "; MSCCL's depid is at most " +
                                    std::to_string(kMscclDependenceLaneMax));
  return Status::ok();
}

Status check_msccl(const Program& program, const ProgramUse& use) {
  for (const auto& [what, text] :
       {std::pair{"name", &program.name}, std::pair{"topology", &use.topology}})
    if (text->find_first_of("&<>\"'") != std::string::npos)
      return unsupported({}, std::string("the ") + what +
                                 " has one of & < > \" ', which MSCCL's loaders cannot read");
  XmlPlace place;
  for (const RankProgram& rank : program.ranks) {
    ++place.rank;
    place.lane = -1;
    for (const Lane& lane : rank.lanes) {
      ++place.lane;
      place.step = -1;
      if (lane.channel > kMscclChannelMax)
        return unsupported(place, "channel " + std::to_string(lane.channel) +
                                      "; MSCCL's channels are at most " +
                                      std::to_string(kMscclChannelMax));
      for (const Step& step : lane.steps) {
        ++place.step;
        MCCL_RETURN_IF_ERROR(check_msccl_step(step, place));
      }
      place.step = -1;
    }
  }
  return Status::ok();
}

// Of one rank: what MSCCL's numbering, which counts nops, makes of our steps.
struct MscclRank {
  std::vector<std::vector<int>> numbers;          // [lane][step]
  std::vector<std::vector<bool>> has_dependents;  // [lane][step]
};

MscclRank number_msccl_steps(const RankProgram& rank) {
  MscclRank result;
  for (const Lane& lane : rank.lanes) {
    std::vector<int>& numbers = result.numbers.emplace_back();
    result.has_dependents.emplace_back(lane.steps.size(), false);
    int next = 0;
    for (const Step& step : lane.steps) {
      next += std::max(0, static_cast<int>(step.dependences.size()) - 1);
      numbers.push_back(next++);
    }
  }
  for (const Lane& lane : rank.lanes)
    for (const Step& step : lane.steps)
      for (const StepRef& ref : step.dependences)
        result.has_dependents[static_cast<size_t>(ref.lane)][static_cast<size_t>(ref.step)] = true;
  return result;
}

// One line of a tb; a slot that the instruction does not use is written as -1.
struct MscclRow {
  int number;
  std::string_view type;
  const Span* source = nullptr;
  const Span* destination = nullptr;
  const StepRef* dependence = nullptr;
  bool has_dependents = false;
};

void write_msccl_row(const MscclRow& row, const MscclRank& rank, XmlEmitter* xml) {
  const auto slot = [xml](const char* buffer, const char* offset, const Span* span, char unused) {
    const char letter = span == nullptr ? unused : buffer_letter(span->buffer);
    xml->attribute(buffer, std::string_view(&letter, 1));
    xml->attribute(offset, span == nullptr ? -1 : span->index);
  };
  const Span* span = row.source != nullptr ? row.source : row.destination;
  const StepRef* ref = row.dependence;
  xml->begin("step");
  xml->attribute("s", row.number);
  xml->attribute("type", row.type);
  slot("srcbuf", "srcoff", row.source, 'i');
  slot("dstbuf", "dstoff", row.destination, 'o');
  xml->attribute("cnt", span == nullptr ? 0 : span->count);
  xml->attribute("depid", ref == nullptr ? -1 : ref->lane);
  xml->attribute(
      "deps", ref == nullptr
                  ? -1
                  : rank.numbers[static_cast<size_t>(ref->lane)][static_cast<size_t>(ref->step)]);
  xml->attribute("hasdep", row.has_dependents ? 1 : 0);
  xml->end_without_children();
}

// The first dependence stands on the step itself, the others on nops before it.
void write_msccl_lane(const Lane& lane, size_t lane_index, const MscclRank& rank, XmlEmitter* xml) {
  xml->begin("tb");
  xml->attribute("id", static_cast<int>(lane_index));
  xml->attribute("send", lane.send_peer);
  xml->attribute("recv", lane.recv_peer);
  xml->attribute("chan", lane.channel);
  if (lane.steps.empty()) return xml->end_without_children();
  xml->begin_children();
  int number = 0;
  for (size_t index = 0; index < lane.steps.size(); ++index) {
    const Step& step = lane.steps[index];
    for (size_t nop = 1; nop < step.dependences.size(); ++nop)
      write_msccl_row({number++, "nop", nullptr, nullptr, &step.dependences[nop], false}, rank,
                      xml);
    MscclRow row{number++, opcode_row(step.opcode).msccl};
    if (!step.sources.empty()) row.source = &step.sources[0];
    if (!step.destinations.empty()) row.destination = &step.destinations[0];
    if (!step.dependences.empty()) row.dependence = &step.dependences[0];
    row.has_dependents = rank.has_dependents[lane_index][index];
    write_msccl_row(row, rank, xml);
  }
  xml->end_children("tb");
}

// What maxBytes says to whom: xml_use.cc. Without a limit both numbers that say so are right for
// Azure's and RCCL's loaders. microsoft's never runs a file of 0, but allocates maxBytes times the
// scratch of a chunk when it loads one, so a program with scratch must not name the largest number.
int64_t msccl_max_bytes(const Program& program, const ProgramUse& use) {
  if (use.end_bytes != ProgramUse::kEndless) return use.end_bytes - 1;
  const bool has_scratch =
      std::any_of(program.ranks.begin(), program.ranks.end(),
                  [](const RankProgram& rank) { return rank.scratch_chunk_count > 0; });
  return has_scratch ? 0 : kMscclBytesMax;
}

void write_msccl_header(const Program& program, const ProgramUse& use, XmlEmitter* xml) {
  int channel_max = 0;
  for (const RankProgram& rank : program.ranks)
    for (const Lane& lane : rank.lanes) channel_max = std::max(channel_max, lane.channel);
  xml->begin("algo");
  xml->attribute("name", program.name);
  xml->attribute("proto", msccl_protocol_name(use.protocol));
  xml->attribute("nchannels", channel_max + 1);
  xml->attribute("nchunksperloop", program.chunk_count * size_block_count(program));
  xml->attribute("ngpus", program.rank_count());
  xml->attribute("coll", msccl_collective_name(program.collective));
  xml->attribute("inplace", program.in_place ? 1 : 0);
  xml->attribute("outofplace", program.out_of_place ? 1 : 0);
  xml->attribute("minBytes", use.begin_bytes);
  xml->attribute("maxBytes", msccl_max_bytes(program, use));
  write_selection(use, xml);
  xml->begin_children();
}

std::string write_msccl(const Program& program, const ProgramUse& use) {
  XmlEmitter xml;
  write_msccl_header(program, use, &xml);
  for (int rank_number = 0; rank_number < program.rank_count(); ++rank_number) {
    const RankProgram& rank = program.ranks[static_cast<size_t>(rank_number)];
    xml.begin("gpu");
    xml.attribute("id", rank_number);
    xml.attribute("i_chunks", buffer_chunk_count(program, rank_number, Buffer::Input));
    xml.attribute("o_chunks", buffer_chunk_count(program, rank_number, Buffer::Output));
    xml.attribute("s_chunks", rank.scratch_chunk_count);
    if (program.collective == Collective::Custom)
      xml.attribute("outputs", write_outputs(program.contract[static_cast<size_t>(rank_number)]));
    if (rank.lanes.empty()) {
      xml.end_without_children();
      continue;
    }
    xml.begin_children();
    const MscclRank numbered = number_msccl_steps(rank);
    for (size_t lane = 0; lane < rank.lanes.size(); ++lane)
      write_msccl_lane(rank.lanes[lane], lane, numbered, &xml);
    xml.end_children("gpu");
  }
  xml.end_children("algo");
  return xml.take();
}

}  // namespace

Result<std::string> write_xml(const Program& program, XmlDialect dialect, const ProgramUse& use) {
  Status status;
  check_xml_structure(program, [&](const XmlPlace& place, const std::string& text) {
    if (status.is_ok()) status = Status(StatusCode::InvalidArgument, to_string(place) + text);
  });
  MCCL_RETURN_IF_ERROR(status);
  MCCL_RETURN_IF_ERROR(check_use(use));
  if (dialect == XmlDialect::Msccl) MCCL_RETURN_IF_ERROR(check_msccl(program, use));
  std::string text =
      dialect == XmlDialect::Msccl ? write_msccl(program, use) : write_mccl(program, use);
  if (text.size() > kXmlBytesMax)
    return Status(StatusCode::Unsupported, "the text has " + std::to_string(text.size()) +
                                               " bytes, more than " + std::to_string(kXmlBytesMax));
  return text;
}

}  // namespace mccl
