// Reading MSCCL's dialect: <algo>, <gpu>, <tb> and <step>, as microsoft/msccl-tools, Azure's fork
// and RCCL write it. What this file decides beyond attribute names:
//
// - The local operand of rrc, rrs and rrcs is srcbuf[srcoff]. Slots that an instruction does not
//   use (the sender's slot on an r, for example) are only checked to be numbers.
// - A nop carries one more dependence of the real step that follows it in its tb and is no step of
//   ours; step numbers are mapped. A dependence *on* a nop means the real step that carries it:
//   MSCCL's runtimes fold the nop into that step and publish nothing before the step is done. Nops
//   with no step after them wait for nothing and vanish.
// - A dependence on an earlier step of the own tb says nothing and vanishes; on the own or a later
//   step it never ends and is a fault. So is one on a step whose hasdep is 0.
// - Sizes come from nchunksperloop, which counts the larger buffer (the output of an allgather, the
//   input of a reduce_scatter). i_chunks and o_chunks may be less, since some writers count what is
//   used, but not more.
//
// proto, minBytes and maxBytes say for which calls the file is meant: xml_use.cc.
#include <algorithm>

#include "base/dtype.h"
#include "ir/collective.h"
#include "ir/opcode.h"
#include "ir/xml.h"
#include "ir/xml_dialects.h"
#include "ir/xml_use.h"

namespace mccl {
namespace {

constexpr int kCountMax = static_cast<int>(kXmlBytesMax);  // of elements; the text is no longer

// A tb's steps as MSCCL numbers them.
struct MscclLane {
  // For each number the real step that it is or is carried by; steps.size() after the last one.
  std::vector<int> real_steps;
  std::vector<bool> has_dependents;  // per real step: hasdep is not 0
};

struct MscclDependence {
  pugi::xml_node element;
  int lane;
  int step;  // real
  int target_lane;
  int target_number;
};

class MscclDialectReader {
 public:
  MscclDialectReader(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source)
      : document_(*document), program_(result->program), use_(result->use), source_(*source) {}

  void read_program();

 private:
  void read_header(pugi::xml_node root);
  void read_collective(pugi::xml_node root);
  void read_claims(pugi::xml_node root);
  void read_gpu(pugi::xml_node element);
  void read_promise(pugi::xml_node element);
  void check_buffer_size(pugi::xml_node element, const char* attribute, Buffer buffer);
  void read_tb(pugi::xml_node element, XmlLaneSource* source);
  void read_step(pugi::xml_node element, int number, XmlLaneSource* source);
  Step read_instruction(pugi::xml_node element, Opcode opcode, XmlStepSource* source);
  std::optional<Opcode> read_opcode(pugi::xml_node element, bool* is_nop);
  // False when the slot could not be read. Adds it to `spans` when the instruction uses it.
  bool read_slot(pugi::xml_node element, const char* buffer, const char* offset,
                 std::optional<int> count, bool is_used, std::vector<Span>* spans);
  void read_dependence(pugi::xml_node element);
  void resolve_dependence(const MscclDependence& dependence);

  XmlDocument& document_;
  Program& program_;
  ProgramUse& use_;
  XmlProgramSource& source_;
  int channel_count_ = kXmlChannelMax + 1;
  // Of the gpu being read.
  int rank_ = -1;
  std::vector<MscclLane> lanes_;
  std::vector<MscclDependence> dependences_;
};

void MscclDialectReader::read_program() {
  document_.ignore_unknown();
  const pugi::xml_node root = document_.root();
  const std::vector<pugi::xml_node> gpus =
      document_.read_numbered_children(root, "gpu", kXmlRanksMax, &source_.are_ranks_known);
  source_.ranks.resize(gpus.size());
  program_.ranks.resize(gpus.size());
  check_declared_rank_count(&document_, "ngpus", "gpu", &source_);
  read_header(root);
  for (const pugi::xml_node gpu : gpus) {
    ++rank_;
    read_gpu(gpu);
  }
}

void MscclDialectReader::read_header(pugi::xml_node root) {
  document_.check_attributes(root, {});
  if (const auto name = document_.read_text(root, "name")) program_.name = *name;
  channel_count_ =
      document_.read_int(root, "nchannels", 1, kXmlChannelMax + 1).value_or(kXmlChannelMax + 1);
  read_msccl_use(&document_, &use_);
  read_collective(root);
  read_claims(root);
}

void MscclDialectReader::read_collective(pugi::xml_node root) {
  const auto name = document_.read_text(root, "coll");
  const std::optional<int> chunk_count =
      document_.read_int(root, "nchunksperloop", 1, kXmlChunksMax);
  std::optional<Collective> found;
  std::string supported;
  for (const Collective collective : all_collectives()) {
    const std::string_view spelling = msccl_collective_name(collective);
    if (name && *name == spelling) found = collective;
    supported += (supported.empty() ? "" : ", ") + std::string(spelling);
  }
  if (name && *name == msccl_collective_name(Collective::Custom)) found = Collective::Custom;
  if (name && *name == "reducescatter") found = Collective::ReduceScatter;  // RCCL's spelling
  if (name && !found)
    document_.add_fault(root, "coll",
                        quote_attribute("coll", *name) +
                            " is not supported; supported: " + supported + ", " +
                            std::string(msccl_collective_name(Collective::Custom)));
  source_.are_sizes_known = found && chunk_count;
  if (!source_.are_sizes_known) return;
  program_.collective = *found;
  program_.chunk_count = *chunk_count;
  if (found == Collective::Custom) {
    program_.chunk_count = 1;  // every chunk is a block of its own
    program_.contract.resize(program_.ranks.size());
    return;
  }
  if (!source_.are_ranks_known) return;
  const int ranks = program_.rank_count();
  if (size_block_count(*found, ranks) == 1) return;
  program_.chunk_count = *chunk_count / program_.rank_count();
  if (*chunk_count % program_.rank_count() == 0) return;
  source_.are_sizes_known = false;
  document_.add_fault(root, "nchunksperloop",
                      quote_attribute("nchunksperloop", std::to_string(*chunk_count)) + " of " +
                          std::string(msccl_collective_name(*found)) + " does not divide by its " +
                          std::to_string(program_.rank_count()) + " gpus");
}

void MscclDialectReader::read_claims(pugi::xml_node root) {
  const std::optional<int> in_place = document_.read_int(root, "inplace", 0, 1);
  program_.in_place = in_place.value_or(1) == 1;
  // Without outofplace (microsoft/msccl) a program serves exactly what inplace says.
  program_.out_of_place = in_place.value_or(0) == 0;
  if (program_.collective == Collective::Custom) {
    program_.in_place = false;  // it has no in-place form; what the attribute says is of no use
    program_.out_of_place = true;
  } else if (root.attribute("outofplace"))
    program_.out_of_place = document_.read_int(root, "outofplace", 0, 1).value_or(1) == 1;
}

void MscclDialectReader::read_gpu(pugi::xml_node element) {
  document_.check_attributes(element, {});
  RankProgram& rank = program_.ranks[static_cast<size_t>(rank_)];
  XmlRankSource& source = source_.ranks[static_cast<size_t>(rank_)];
  source.element = element;
  if (program_.collective == Collective::Custom) {
    read_promise(element);
  } else {
    check_buffer_size(element, "i_chunks", Buffer::Input);
    check_buffer_size(element, "o_chunks", Buffer::Output);
  }
  rank.scratch_chunk_count =
      document_.read_int(element, "s_chunks", 0, kXmlChunksMax).value_or(kXmlChunksMax);
  const std::vector<pugi::xml_node> tbs =
      document_.read_numbered_children(element, "tb", kCountMax, &source.are_lanes_known);
  lanes_.clear();
  dependences_.clear();
  for (const pugi::xml_node tb : tbs) {
    if (document_.is_full()) return;
    read_tb(tb, &source.lanes.emplace_back());
  }
  if (source.are_lanes_known)
    for (const MscclDependence& dependence : dependences_) resolve_dependence(dependence);
  for (Lane& lane : rank.lanes) {
    for (Step& step : lane.steps) {
      std::vector<StepRef>& refs = step.dependences;
      std::sort(refs.begin(), refs.end());
      refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
    }
  }
}

// Of a custom collective the sizes are what the file says. What the outputs must hold MSCCL cannot
// say; `outputs` is ours, and without it nothing is promised.
void MscclDialectReader::read_promise(pugi::xml_node element) {
  CustomRank& promise = program_.contract[static_cast<size_t>(rank_)];
  promise.input_chunk_count =
      document_.read_int(element, "i_chunks", 0, kXmlChunksMax).value_or(kXmlChunksMax);
  const std::optional<int> size = document_.read_int(element, "o_chunks", 0, kXmlChunksMax);
  read_outputs(&document_, element, &promise);
  const size_t promised = promise.outputs.size();
  if (size && promised == 0) promise.outputs.resize(static_cast<size_t>(*size));
  if (size && promised != 0 && promised != static_cast<size_t>(*size))
    document_.add_fault(element, "outputs",
                        "outputs promises " + std::to_string(promised) +
                            " chunks, but o_chunks is " + std::to_string(*size));
}

void MscclDialectReader::check_buffer_size(pugi::xml_node element, const char* attribute,
                                           Buffer buffer) {
  const std::optional<int> size = document_.read_int(element, attribute, 0, kXmlChunksMax);
  if (!size || !source_.are_sizes_known || !source_.are_ranks_known) return;
  const int chunk_count = buffer_chunk_count(program_, rank_, buffer);
  if (*size > chunk_count)
    document_.add_fault(element, attribute,
                        quote_attribute(attribute, std::to_string(*size)) + ", but the " +
                            buffer_name(buffer) + " has " + std::to_string(chunk_count) +
                            " chunks");
}

void MscclDialectReader::read_tb(pugi::xml_node element, XmlLaneSource* source) {
  document_.check_attributes(element, {});
  source->element = element;
  const std::optional<int> send = document_.read_int(element, "send", -1, kXmlRanksMax - 1);
  const std::optional<int> recv = document_.read_int(element, "recv", -1, kXmlRanksMax - 1);
  const std::optional<int> channel = document_.read_int(element, "chan", 0, kXmlChannelMax);
  source->is_understood = send && recv && channel;
  if (channel && *channel >= channel_count_)
    document_.add_fault(element, "chan",
                        quote_attribute("chan", std::to_string(*channel)) + ", but nchannels is " +
                            std::to_string(channel_count_));
  Lane& lane = program_.ranks[static_cast<size_t>(rank_)].lanes.emplace_back();
  lane.send_peer = send.value_or(-1);
  lane.recv_peer = recv.value_or(-1);
  lane.channel = channel.value_or(0);
  lanes_.emplace_back();
  int number = 0;
  for (const pugi::xml_node step : document_.read_children(element, "step", kCountMax)) {
    if (document_.is_full()) return;
    read_step(step, number++, source);
  }
}

void MscclDialectReader::read_step(pugi::xml_node element, int number, XmlLaneSource* source) {
  document_.check_attributes(element, {});
  document_.read_children(element, nullptr, 0);
  document_.check_position(element, "s", number);
  read_dependence(element);
  const std::optional<int> has_dependents = document_.read_int(element, "hasdep", 0, 1);
  Lane& lane = program_.ranks[static_cast<size_t>(rank_)].lanes.back();
  lanes_.back().real_steps.push_back(static_cast<int>(lane.steps.size()));
  bool is_nop = false;
  const std::optional<Opcode> opcode = read_opcode(element, &is_nop);
  if (is_nop) {
    read_slot(element, "srcbuf", "srcoff", 1, false, nullptr);
    read_slot(element, "dstbuf", "dstoff", 1, false, nullptr);
    document_.read_int(element, "cnt", 0, kXmlChunksMax);
    return;
  }
  XmlStepSource& step_source = source->steps.emplace_back();
  step_source = {element, opcode.has_value()};
  lanes_.back().has_dependents.push_back(has_dependents.value_or(1) == 1);
  lane.steps.push_back(read_instruction(element, opcode.value_or(Opcode::Copy), &step_source));
}

Step MscclDialectReader::read_instruction(pugi::xml_node element, Opcode opcode,
                                          XmlStepSource* source) {
  const OpcodeRow& row = opcode_row(opcode);
  const bool is_known = source->is_understood;
  const std::optional<int> count = document_.read_int(element, "cnt", 1, kXmlChunksMax);
  Step step;
  step.opcode = opcode;
  const bool has_source =
      read_slot(element, "srcbuf", "srcoff", count, is_known && row.reads > 0, &step.sources);
  const bool has_destination =
      read_slot(element, "dstbuf", "dstoff", count, is_known && row.writes > 0, &step.destinations);
  source->is_understood = is_known && count && has_source && has_destination;
  return step;
}

std::optional<Opcode> MscclDialectReader::read_opcode(pugi::xml_node element, bool* is_nop) {
  const auto code = document_.read_text(element, "type");
  if (!code) return std::nullopt;
  *is_nop = *code == "nop";
  const std::optional<Opcode> opcode = find_msccl_opcode(*code);
  if (opcode || *is_nop) return opcode;
  const std::string quoted = quote_attribute("type", *code);
  if (*code == "ra") {
    document_.add_fault(element, "type",
                        quoted + " is accepted by some loaders, but no runtime executes it");
    return std::nullopt;
  }
  std::string known = " nop";
  for (const OpcodeRow& row : opcodes())
    if (!row.msccl.empty()) known += " " + std::string(row.msccl);
  document_.add_fault(element, "type", quoted + " is not an instruction; there are" + known);
  return std::nullopt;
}

bool MscclDialectReader::read_slot(pugi::xml_node element, const char* buffer, const char* offset,
                                   std::optional<int> count, bool is_used,
                                   std::vector<Span>* spans) {
  std::optional<Buffer> found;
  if (const auto letter = document_.read_text(element, buffer)) {
    found = find_buffer(*letter);
    if (!found)
      document_.add_fault(element, buffer,
                          quote_attribute(buffer, *letter) + " is not one of i, o and s");
  }
  const std::optional<int> index =
      document_.read_int(element, offset, is_used ? 0 : -1, kXmlChunksMax - 1);
  if (is_used && found && index && count) spans->push_back({rank_, *found, *index, *count});
  return found && index;
}

void MscclDialectReader::read_dependence(pugi::xml_node element) {
  const std::optional<int> lane = document_.read_int(element, "depid", -1, kCountMax);
  const std::optional<int> number = document_.read_int(element, "deps", -1, kCountMax);
  if (!lane || !number) return;
  if ((*lane == -1) != (*number == -1)) {
    document_.add_fault(element, "deps",
                        quote_attribute("depid", std::to_string(*lane)) + " and " +
                            quote_attribute("deps", std::to_string(*number)) +
                            ": only one of them says that there is no dependence");
  } else if (*lane >= 0) {
    const Lane& own = program_.ranks[static_cast<size_t>(rank_)].lanes.back();
    dependences_.push_back({element, static_cast<int>(lanes_.size()) - 1,
                            static_cast<int>(own.steps.size()), *lane, *number});
  }
}

void MscclDialectReader::resolve_dependence(const MscclDependence& dependence) {
  const pugi::xml_node element = dependence.element;
  if (static_cast<size_t>(dependence.target_lane) >= lanes_.size())
    return document_.add_fault(element, "depid",
                               quote_attribute("depid", std::to_string(dependence.target_lane)) +
                                   " names no tb: the gpu has " + std::to_string(lanes_.size()));
  const MscclLane& target = lanes_[static_cast<size_t>(dependence.target_lane)];
  const std::string quoted = quote_attribute("deps", std::to_string(dependence.target_number));
  if (static_cast<size_t>(dependence.target_number) >= target.real_steps.size())
    return document_.add_fault(
        element, "deps",
        quoted + " names no step: the tb has " + std::to_string(target.real_steps.size()));
  const int step = target.real_steps[static_cast<size_t>(dependence.target_number)];
  if (static_cast<size_t>(step) >= target.has_dependents.size())
    return document_.add_fault(element, "deps", quoted + " names a nop that no step follows");
  std::vector<Step>& steps =
      program_.ranks[static_cast<size_t>(rank_)].lanes[static_cast<size_t>(dependence.lane)].steps;
  if (dependence.target_lane == dependence.lane && step >= dependence.step)
    return document_.add_fault(
        element, "deps", quoted + " of the own tb is not before this step: the wait never ends");
  if (!target.has_dependents[static_cast<size_t>(step)])
    return document_.add_fault(element, "deps",
                               quoted + " names a step whose hasdep is 0: the wait never ends");
  const bool is_followed = static_cast<size_t>(dependence.step) < steps.size();
  if (dependence.target_lane == dependence.lane || !is_followed) return;
  steps[static_cast<size_t>(dependence.step)].dependences.push_back({dependence.target_lane, step});
}

}  // namespace

void read_msccl_dialect(XmlDocument* document, XmlReadResult* result, XmlProgramSource* source) {
  MscclDialectReader(document, result, source).read_program();
}

}  // namespace mccl
