// Reading programs: the entry, which tells the dialects apart, and our own dialect. MSCCL's is in
// xml_msccl_reader.cc.
//
// Three stages. The document is parsed, with places (xml_document.h). A dialect's reader turns
// elements into a program, faults what it does not understand and remembers which element each part
// came from. Then the rules that hold for every program (xml_structure.h) are checked and their
// findings located through those elements; findings about parts that were not understood are
// dropped, so that one slip gives one fault. Nothing is sized by a number in the text, only by its
// elements. Grammar: docs/ir.md.
#include <algorithm>

#include "base/dtype.h"
#include "ir/opcode.h"
#include "ir/xml.h"
#include "ir/xml_dialects.h"
#include "ir/xml_use.h"

namespace mccl {
namespace {

// A number of a word: parsed and no more than any limit on chunks, lanes or steps needs.
std::optional<int> parse_index(std::string_view text) {
  const std::optional<int64_t> number = parse_decimal(text);
  if (!number || *number < 0 || *number > static_cast<int64_t>(kXmlBytesMax)) return std::nullopt;
  return static_cast<int>(*number);
}

// "i:3" or "s:0*2".
std::optional<Span> parse_span(std::string_view word, int rank) {
  if (word.size() < 3 || word[1] != ':') return std::nullopt;
  const std::optional<Buffer> buffer = find_buffer(word.substr(0, 1));
  const std::string_view numbers = word.substr(2);
  const size_t star = numbers.find('*');
  const std::optional<int> index = parse_index(numbers.substr(0, star));
  const std::optional<int> count =
      star == std::string_view::npos ? 1 : parse_index(numbers.substr(star + 1));
  if (!buffer || !index || !count) return std::nullopt;
  return Span{rank, *buffer, *index, *count};
}

class McclDialectReader {
 public:
  McclDialectReader(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source)
      : document_(*document), program_(result->program), use_(result->use), source_(*source) {}

  void read_program();

 private:
  void read_header(pugi::xml_node element);
  std::optional<bool> read_bool(pugi::xml_node element, const char* attribute);
  void read_rank(pugi::xml_node element);
  Lane read_lane(pugi::xml_node element, XmlLaneSource* source);
  Step read_step(pugi::xml_node element, int position, XmlStepSource* source);
  bool read_spans(pugi::xml_node element, const char* attribute, std::vector<Span>* spans);
  void read_dependences(pugi::xml_node element, std::vector<StepRef>* dependences);

  XmlDocument& document_;
  Program& program_;
  ProgramUse& use_;
  XmlProgramSource& source_;
  int rank_ = -1;  // the one being read
};

void McclDialectReader::read_program() {
  const pugi::xml_node root = document_.root();
  read_header(root);
  const std::vector<pugi::xml_node> ranks =
      document_.read_numbered_children(root, "rank", kXmlRanksMax, &source_.are_ranks_known);
  for (const pugi::xml_node element : ranks) {
    ++rank_;
    read_rank(element);
  }
  check_declared_rank_count(&document_, "ranks", "rank", &source_);
}

void McclDialectReader::read_header(pugi::xml_node element) {
  document_.check_attributes(
      element, {"name", "collective", "ranks", "chunks", "in_place", "out_of_place", "min_bytes",
                "max_bytes", "protocol", "priority", "topology", "version"});
  if (const auto name = document_.read_text(element, "name")) program_.name = *name;
  if (const auto name = document_.read_text(element, "collective")) {
    std::optional<Collective> collective = find_collective(*name);
    if (*name == collective_name(Collective::Custom)) collective = Collective::Custom;
    if (!collective) {
      std::string supported;
      for (const Collective one : all_collectives())
        supported += (supported.empty() ? "" : ", ") + std::string(collective_name(one));
      document_.add_fault(element, "collective",
                          quote_attribute("collective", *name) + " is not supported; supported: " +
                              supported + ", " + std::string(collective_name(Collective::Custom)));
    }
    program_.collective = collective.value_or(Collective::AllReduce);
    source_.are_sizes_known &= collective.has_value();
  } else {
    source_.are_sizes_known = false;
  }
  const std::optional<int> chunk_count = document_.read_int(element, "chunks", 1, kXmlChunksMax);
  program_.chunk_count = chunk_count.value_or(1);
  source_.are_sizes_known &= chunk_count.has_value();
  program_.in_place = read_bool(element, "in_place").value_or(true);
  program_.out_of_place = read_bool(element, "out_of_place").value_or(true);
  read_mccl_use(&document_, &use_);
}

std::optional<bool> McclDialectReader::read_bool(pugi::xml_node element, const char* attribute) {
  const auto text = document_.read_text(element, attribute);
  if (!text) return std::nullopt;
  if (*text == "true" || *text == "false") return *text == "true";
  document_.add_fault(element, attribute,
                      quote_attribute(attribute, *text) + " is neither true nor false");
  return std::nullopt;
}

void McclDialectReader::read_rank(pugi::xml_node element) {
  const bool is_custom = program_.collective == Collective::Custom;
  if (is_custom)
    document_.check_attributes(element, {"id", "input_chunks", "outputs", "scratch_chunks"});
  else
    document_.check_attributes(element, {"id", "scratch_chunks"});
  RankProgram& rank_program = program_.ranks.emplace_back();
  if (is_custom) {
    CustomRank& promise = program_.contract.emplace_back();
    promise.input_chunk_count =
        document_.read_int(element, "input_chunks", 0, kXmlChunksMax).value_or(kXmlChunksMax);
    read_outputs(&document_, element, &promise);
  }
  XmlRankSource& rank_source = source_.ranks.emplace_back();
  rank_source.element = element;
  rank_program.scratch_chunk_count =
      document_.read_int(element, "scratch_chunks", 0, kXmlChunksMax).value_or(kXmlChunksMax);
  const std::vector<pugi::xml_node> lanes = document_.read_numbered_children(
      element, "lane", static_cast<int>(kXmlBytesMax), &rank_source.are_lanes_known);
  for (const pugi::xml_node lane : lanes) {
    if (document_.is_full()) return;
    rank_program.lanes.push_back(read_lane(lane, &rank_source.lanes.emplace_back()));
  }
}

Lane McclDialectReader::read_lane(pugi::xml_node element, XmlLaneSource* source) {
  document_.check_attributes(element, {"id", "send", "recv", "channel"});
  source->element = element;
  const std::optional<int> send = document_.read_int(element, "send", -1, kXmlRanksMax - 1);
  const std::optional<int> recv = document_.read_int(element, "recv", -1, kXmlRanksMax - 1);
  const std::optional<int> channel = document_.read_int(element, "channel", 0, kXmlChannelMax);
  source->is_understood = send && recv && channel;
  Lane lane;
  lane.send_peer = send.value_or(-1);
  lane.recv_peer = recv.value_or(-1);
  lane.channel = channel.value_or(0);
  for (const pugi::xml_node step :
       document_.read_children(element, "step", static_cast<int>(kXmlBytesMax))) {
    if (document_.is_full()) break;
    lane.steps.push_back(
        read_step(step, static_cast<int>(lane.steps.size()), &source->steps.emplace_back()));
  }
  return lane;
}

Step McclDialectReader::read_step(pugi::xml_node element, int position, XmlStepSource* source) {
  document_.check_attributes(element, {"id", "op", "src", "dst", "depends"});
  document_.read_children(element, nullptr, 0);
  source->element = element;
  document_.check_position(element, "id", position);
  Step step;
  if (const auto name = document_.read_text(element, "op")) {
    const std::optional<Opcode> opcode = find_opcode(*name);
    if (!opcode) {
      std::string known;
      for (const OpcodeRow& row : opcodes()) known += " " + std::string(row.spelling);
      document_.add_fault(
          element, "op",
          quote_attribute("op", *name) + " is not an instruction; there are" + known);
    }
    source->is_understood = opcode.has_value();
    step.opcode = opcode.value_or(Opcode::Copy);
  } else {
    source->is_understood = false;
  }
  source->is_understood &= read_spans(element, "src", &step.sources);
  source->is_understood &= read_spans(element, "dst", &step.destinations);
  read_dependences(element, &step.dependences);
  return step;
}

bool McclDialectReader::read_spans(pugi::xml_node element, const char* attribute,
                                   std::vector<Span>* spans) {
  const pugi::xml_attribute list = element.attribute(attribute);
  bool is_understood = true;
  for_each_word(list.value(), [&](std::string_view word) {
    const std::optional<Span> span = parse_span(word, rank_);
    is_understood &= span.has_value();
    if (span)
      spans->push_back(*span);
    else
      document_.add_fault(
          element, attribute,
          quote_attribute(attribute, word) +
              " is not a span; one is i:3 or o:0*2 (buffer i, o or s, index, count)");
  });
  if (list && spans->empty() && is_understood) {
    document_.add_fault(element, attribute, quote_attribute(attribute, "") + " names no span");
    is_understood = false;
  }
  return is_understood;
}

void McclDialectReader::read_dependences(pugi::xml_node element,
                                         std::vector<StepRef>* dependences) {
  for_each_word(element.attribute("depends").value(), [&](std::string_view word) {
    const size_t colon = word.find(':');
    const std::optional<int> lane = parse_index(word.substr(0, colon));
    const std::optional<int> step =
        colon == std::string_view::npos ? std::nullopt : parse_index(word.substr(colon + 1));
    if (lane && step)
      dependences->push_back({*lane, *step});
    else
      document_.add_fault(
          element, "depends",
          quote_attribute("depends", word) + " is not a dependence; one is 1:0 (lane, step)");
  });
  std::sort(dependences->begin(), dependences->end());
}

// Where a finding stands, or a null element when it only follows from an earlier fault.
pugi::xml_node find_element(const XmlPlace& place, const XmlProgramSource& source,
                            pugi::xml_node root) {
  if (place.field == XmlField::Ranks && !source.are_ranks_known) return {};
  if (place.rank < 0) return root;
  const XmlRankSource& rank = source.ranks[static_cast<size_t>(place.rank)];
  if (place.lane < 0) return rank.element;
  const XmlLaneSource& lane = rank.lanes[static_cast<size_t>(place.lane)];
  const bool is_about_peer = place.field == XmlField::Send || place.field == XmlField::Recv;
  if (is_about_peer && !source.are_ranks_known) return {};
  if (place.step < 0) return lane.element;
  const XmlStepSource& step = lane.steps[static_cast<size_t>(place.step)];
  const bool is_about_shape = place.field == XmlField::Sources ||
                              place.field == XmlField::Destinations ||
                              place.field == XmlField::Counts;
  if (is_about_shape && !step.is_understood) return {};
  if (place.field == XmlField::Op && !(step.is_understood && lane.is_understood)) return {};
  if (place.field == XmlField::Depends && !rank.are_lanes_known) return {};
  return step.element;
}

void check_structure(XmlDialect dialect, const XmlProgramSource& source, Program* program,
                     XmlDocument* document) {
  if (document->is_full()) return;
  if (!source.are_sizes_known || !source.are_ranks_known) {
    // Sizes from an unreadable header would condemn every span; these condemn none that is legal.
    program->collective = Collective::AllReduce;
    program->contract.clear();
    program->chunk_count = kXmlChunksMax;
  }
  const auto attribute = dialect == XmlDialect::Mccl ? mccl_attribute : msccl_attribute;
  check_xml_structure(*program, [&](const XmlPlace& place, std::string text) {
    const pugi::xml_node element = find_element(place, source, document->root());
    if (element) document->add_fault(element, attribute(place.field), std::move(text));
  });
}

std::vector<XmlRankOffsets> find_offsets(const XmlProgramSource& source,
                                         const XmlDocument& document) {
  const auto offset = [&](pugi::xml_node element) {
    return static_cast<uint32_t>(document.offset_of(element));
  };
  std::vector<XmlRankOffsets> offsets;
  for (const XmlRankSource& rank : source.ranks) {
    XmlRankOffsets& rank_offsets = offsets.emplace_back();
    rank_offsets.rank = offset(rank.element);
    for (const XmlLaneSource& lane : rank.lanes) {
      XmlLaneOffsets& lane_offsets = rank_offsets.lanes.emplace_back();
      lane_offsets.lane = offset(lane.element);
      for (const XmlStepSource& step : lane.steps)
        lane_offsets.steps.push_back(offset(step.element));
    }
  }
  return offsets;
}

}  // namespace

void read_mccl_dialect(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source) {
  McclDialectReader(document, result, source).read_program();
}

XmlReadResult read_xml(std::string_view text) {
  XmlReadResult result;
  XmlDocument document(text);
  XmlProgramSource source;
  if (document.root()) {
    const std::string_view name = document.root().name();
    if (name == "program" || name == "algo") {
      result.dialect = name == "algo" ? XmlDialect::Msccl : XmlDialect::Mccl;
      const auto read = name == "algo" ? read_msccl_dialect : read_mccl_dialect;
      read(&document, &result, &source);
      check_structure(result.dialect, source, &result.program, &document);
    } else {
      document.add_fault(document.root(),
                         "the root element is neither <program> (ours) nor <algo> (MSCCL's)");
    }
  }
  result.faults = document.make_faults();
  if (result.is_ok()) {
    result.root_offset = document.offset_of(document.root());
    result.offsets = find_offsets(source, document);
  } else {
    result.program = Program();
    result.use = ProgramUse();
  }
  return result;
}

size_t XmlReadResult::offset_of(int rank, int lane, int step) const {
  if (rank < 0) return root_offset;
  const XmlRankOffsets& in_rank = offsets[static_cast<size_t>(rank)];
  if (lane < 0) return in_rank.rank;
  const XmlLaneOffsets& in_lane = in_rank.lanes[static_cast<size_t>(lane)];
  return step < 0 ? in_lane.lane : in_lane.steps[static_cast<size_t>(step)];
}

XmlPosition find_position(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  return {static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

std::string XmlReadResult::to_string(std::string_view file_name) const {
  std::string text;
  for (const XmlFault& fault : faults) {
    if (!text.empty()) text += '\n';
    text += std::string(file_name) + ":" + std::to_string(fault.line) + ":" +
            std::to_string(fault.column) + ": " + fault.text;
  }
  return text;
}

}  // namespace mccl
