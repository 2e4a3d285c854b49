// See xml_target.h. Looks at the rows of the file, nops included, as the loaders do: what they fold
// and merge depends on neighbours that a program no longer has. One pass over the text.
//
// Numbers are those of the loaders' sources; where a build may change one (the executor's steps)
// it is the default. Table: docs/ir.md.
#include "ir/xml_target.h"

#include <array>
#include <iterator>
#include <map>
#include <tuple>

#include "ir/xml_document.h"
#include "ir/xml_loader_text.h"

namespace mccl {
namespace {

struct Loader {
  std::string_view name;
  int steps_of_tb;  // nops included
  int tbs_of_gpu;
  int channels;
  std::string_view collectives;  // each between blanks
};

constexpr std::array<Loader, 4> kLoaders = {{
    {"mccl", 0, 0, 0, ""},
    {"msccl", 256, 216, 32, " allreduce allgather reduce broadcast alltoall reduce_scatter "},
    {"executor", 64, 1024, 32,
     " allreduce allgather reduce broadcast alltoall reducescatter gather scatter "},
    {"rccl", 64, 64, 128,
     " allreduce allgather reduce broadcast alltoall reducescatter gather scatter "},
}};

// The same for all three.
constexpr int kTbsOfDirectionMax = 32;  // per channel
constexpr int kCountMax = 71;
constexpr int kOffsetMax = 32767;      // 16 bits
constexpr int kDependenceTbMax = 127;  // 8 bits
constexpr int kNameBytesMax = 63;
constexpr int kNodesMax = 4096;
constexpr int kChildrenMax = 1024;
// A run of 16 merged reductions drops the destination's own value, a longer one overruns an array.
constexpr int kMergedMax = 15;

// A tb is merged and folded row by row.
struct Row {
  pugi::xml_node element;
  std::string_view type;
  int step;  // of our program: the row's own, or that which a nop precedes
  int count;
  int dependence_tb;
  bool has_dependents;
};

bool is_same_slot(const Row& a, const Row& b, const char* buffer, const char* offset) {
  return std::string_view(a.element.attribute(buffer).value()) ==
             b.element.attribute(buffer).value() &&
         a.element.attribute(offset).as_int() == b.element.attribute(offset).as_int();
}

class TargetCheck {
 public:
  // `places` takes the faults. It holds the text that `read` was read from, which is `rows` itself
  // unless that had to be written first.
  TargetCheck(XmlTarget target, const XmlReadResult& read, XmlDocument* rows, XmlDocument* places)
      : target_(target),
        loader_(kLoaders[static_cast<size_t>(target)]),
        read_(read),
        rows_(*rows),
        places_(*places) {}

  void check() {
    check_header();
    for (const pugi::xml_node gpu : rows_.root().children("gpu")) {
      if (places_.is_full()) return;
      check_gpu(gpu);
    }
  }

 private:
  void check_header();
  void check_window();
  void check_gpu(pugi::xml_node gpu);
  void check_sizes(pugi::xml_node gpu);
  void check_tb(pugi::xml_node tb);
  void check_row(const Row& row);
  void check_nops(const std::vector<Row>& rows);
  void check_merges(const std::vector<Row>& rows);

  // At the attribute, or at our element where the rows were written.
  void add(pugi::xml_node element, const char* attribute, int lane, int step, std::string text) {
    text += " (" + std::string(loader_.name) + ")";
    if (&rows_ == &places_)
      places_.add_fault(element, attribute, std::move(text));
    else
      places_.add_fault_at(read_.offset_of(rank_, lane, step), std::move(text));
  }
  void add_limit(pugi::xml_node element, const char* attribute, int step, int64_t value,
                 int64_t max, const std::string& noun) {
    if (value > max)
      add(element, attribute, lane_, step,
          std::to_string(value) + " " + noun + ", at most " + std::to_string(max) + " are loaded");
  }

  const XmlTarget target_;
  const Loader& loader_;
  const XmlReadResult& read_;
  XmlDocument& rows_;
  XmlDocument& places_;
  bool has_refused_code_ = false;
  int rank_ = -1;
  int lane_ = -1;
};

void TargetCheck::check_header() {
  const pugi::xml_node root = rows_.root();
  const std::string collective = root.attribute("coll").value();
  if (loader_.collectives.find(" " + collective + " ") == std::string_view::npos)
    add(root, "coll", -1, -1,
        quote_attribute("coll", collective) + " is not known to the loader; it knows" +
            std::string(loader_.collectives.substr(0, loader_.collectives.size() - 1)));
  const size_t name_bytes = std::string_view(root.attribute("name").value()).size();
  if (name_bytes > kNameBytesMax && target_ == XmlTarget::Msccl)
    add(root, "name", -1, -1,
        "the name has " + std::to_string(name_bytes) + " bytes, of which " +
            std::to_string(kNameBytesMax) + " are kept");
  add_limit(root, "nchannels", -1, root.attribute("nchannels").as_int(), loader_.channels,
            "channels");
  add_limit(root, "ngpus", -1, root.attribute("ngpus").as_int(), kChildrenMax, "gpus");
  check_window();
}

void TargetCheck::check_window() {
  const pugi::xml_node root = rows_.root();
  if (target_ != XmlTarget::Msccl) {
    for (const char* attribute : {"outofplace", "minBytes", "maxBytes"})
      if (!root.attribute(attribute))
        add(root, attribute, -1, -1,
            "<algo> lacks the attribute " + std::string(attribute) + ", which is required");
    return;
  }
  // microsoft's loader ignores outofplace: for it maxBytes is always the first size too many.
  const pugi::xml_attribute max = root.attribute("maxBytes");
  if (!max) return;
  const int64_t min_bytes = root.attribute("minBytes").as_llong();
  if (max.as_llong() <= min_bytes)
    add(root, "maxBytes", -1, -1,
        quote_attribute("maxBytes", max.value()) +
            " is taken for the first size too many: the file serves no call");
  const bool is_endless = max.as_llong() > (int64_t{1} << 40);
  for (const RankProgram& rank : read_.program.ranks) {
    if (!is_endless || rank.scratch_chunk_count == 0) continue;
    add(root, "maxBytes", -1, -1,
        quote_attribute("maxBytes", max.value()) +
            ", of which the loader allocates scratch when it starts");
    return;
  }
}

void TargetCheck::check_gpu(pugi::xml_node gpu) {
  rank_ = gpu.attribute("id").as_int();
  lane_ = -1;
  check_sizes(gpu);
  int tb_count = 0;
  int node_count = 2;                                     // <algo> and <gpu>
  std::map<std::tuple<bool, int>, int> tbs_of_direction;  // by sends, channel
  for (const pugi::xml_node tb : gpu.children("tb")) {
    ++tb_count;
    lane_ = tb.attribute("id").as_int();
    const int channel = tb.attribute("chan").as_int();
    for (const bool sends : {true, false}) {
      if (tb.attribute(sends ? "send" : "recv").as_int() < 0) continue;
      const int count = ++tbs_of_direction[{sends, channel}];
      if (count == kTbsOfDirectionMax + 1)
        add(tb, "chan", lane_, -1,
            "more than " + std::to_string(kTbsOfDirectionMax) + " tbs of the gpu " +
                (sends ? "send" : "receive") + " on channel " + std::to_string(channel));
    }
    check_tb(tb);
    node_count += 1 + static_cast<int>(std::distance(tb.begin(), tb.end()));
  }
  lane_ = -1;
  add_limit(gpu, "id", -1, tb_count, loader_.tbs_of_gpu, "tbs on one gpu");
  if (tb_count <= loader_.tbs_of_gpu) add_limit(gpu, "id", -1, tb_count, kChildrenMax, "tbs");
  add_limit(gpu, "id", -1, node_count, kNodesMax, "elements for one gpu");
}

// microsoft's loader wants all of a buffer or nothing, on its own rank only: ranks would disagree.
void TargetCheck::check_sizes(pugi::xml_node gpu) {
  if (target_ != XmlTarget::Msccl) return;
  for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
    const char* attribute = buffer == Buffer::Input ? "i_chunks" : "o_chunks";
    const int size = gpu.attribute(attribute).as_int();
    const int full = buffer_chunk_count(read_.program, rank_, buffer);
    if (size != 0 && size != full)
      add(gpu, attribute, -1, -1,
          quote_attribute(attribute, std::to_string(size)) + " is neither 0 nor all " +
              std::to_string(full) + " chunks of the " + buffer_name(buffer));
  }
}

void TargetCheck::check_tb(pugi::xml_node tb) {
  std::vector<Row> rows;
  int step = 0;
  const auto step_count = static_cast<int>(read_.program.ranks[static_cast<size_t>(rank_)]
                                               .lanes[static_cast<size_t>(lane_)]
                                               .steps.size());
  for (const pugi::xml_node element : tb.children("step")) {
    const std::string_view type = element.attribute("type").value();
    rows.push_back({element, type, step < step_count ? step : -1, element.attribute("cnt").as_int(),
                    element.attribute("depid").as_int(),
                    element.attribute("hasdep").as_int() == 1});
    if (type != "nop") ++step;
  }
  add_limit(tb, "id", -1, static_cast<int64_t>(rows.size()), loader_.steps_of_tb,
            "steps in the tb, nops included");
  for (const Row& row : rows) {
    if (places_.is_full()) return;
    check_row(row);
  }
  check_nops(rows);
  check_merges(rows);
}

void TargetCheck::check_row(const Row& row) {
  add_limit(row.element, "cnt", row.step, row.count, kCountMax, "chunks in one step");
  for (const char* attribute : {"srcoff", "dstoff"}) {
    const int offset = row.element.attribute(attribute).as_int();
    if (offset > kOffsetMax)
      add(row.element, attribute, lane_, row.step,
          "chunk " + std::to_string(offset) + " is past the last one that can be named, " +
              std::to_string(kOffsetMax));
  }
  if (row.dependence_tb > kDependenceTbMax)
    add(row.element, "depid", lane_, row.step,
        "a dependence on tb " + std::to_string(row.dependence_tb) + "; the last one is " +
            std::to_string(kDependenceTbMax));
  const bool is_refused =
      row.type == "rcs" || row.type == "rrs" || row.type == "rrc" || row.type == "rrcs";
  if (target_ != XmlTarget::Rccl || !is_refused || has_refused_code_) return;
  has_refused_code_ = true;  // of the whole program: told once
  add(row.element, "type", lane_, row.step,
      std::string(row.type) + ": programs with rcs, rrs, rrc or rrcs are loaded and never run");
}

// The runtime counts a nop's wait when it runs the step that carries it. One that waits for
// nothing, or whose step does not wait itself, shifts the numbers of all later steps.
void TargetCheck::check_nops(const std::vector<Row>& rows) {
  bool has_step = false;  // after the row that is looked at
  bool step_waits = false;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->type != "nop") {
      has_step = true;
      step_waits = row->dependence_tb >= 0;
    } else if (has_step && row->dependence_tb < 0) {
      add(row->element, "depid", lane_, row->step,
          "a nop that waits for nothing shifts step numbers");
    } else if (has_step && !step_waits) {
      add(row->element, "type", lane_, row->step,
          "a nop before a step without a dependence shifts step numbers");
    }
  }
}

// A reduction is merged into the one before it when both write one place, read one buffer, and
// nothing waits in between.
void TargetCheck::check_merges(const std::vector<Row>& rows) {
  int merged = 1;
  for (size_t index = 1; index < rows.size(); ++index) {
    const Row& last = rows[index - 1];
    const Row& row = rows[index];
    const bool is_merged = row.type == "re" && last.type == "re" && row.dependence_tb < 0 &&
                           !last.has_dependents && is_same_slot(last, row, "dstbuf", "dstoff") &&
                           std::string_view(last.element.attribute("srcbuf").value()) ==
                               row.element.attribute("srcbuf").value();
    merged = is_merged ? merged + 1 : 1;
    if (merged == kMergedMax + 1)
      add(row.element, "type", lane_, row.step,
          "more than " + std::to_string(kMergedMax) +
              " reductions in a row are merged into one, which loses operands");
    if (is_merged && row.count != last.count)
      add(row.element, "cnt", lane_, row.step,
          "is merged into the reduction before it, of " + std::to_string(last.count) +
              " chunks, which gets this count");
  }
}

}  // namespace

std::string_view target_name(XmlTarget target) {
  return kLoaders[static_cast<size_t>(target)].name;
}

std::optional<XmlTarget> find_target(std::string_view name) {
  for (size_t index = 0; index < kLoaders.size(); ++index)
    if (kLoaders[index].name == name) return static_cast<XmlTarget>(index);
  return std::nullopt;
}

std::vector<XmlFault> check_target(std::string_view text, const XmlReadResult& read,
                                   XmlTarget target) {
  if (target == XmlTarget::Mccl) return {};
  XmlDocument places(text);
  if (read.dialect == XmlDialect::Msccl) {
    check_loader_text(text, [&](size_t offset, std::string fault) {
      places.add_fault_at(offset, std::move(fault) + " (" + std::string(target_name(target)) + ")");
    });
    TargetCheck(target, read, &places, &places).check();
    return places.make_faults();
  }
  const Result<std::string> written = write_xml(read.program, XmlDialect::Msccl, read.use);
  if (written.is_ok()) {
    XmlDocument rows(written.value());
    TargetCheck(target, read, &rows, &places).check();
  } else {
    places.add_fault_at(read.root_offset,
                        "MSCCL's dialect cannot say it: " + written.status().message() + " (" +
                            std::string(target_name(target)) + ")");
  }
  return places.make_faults();
}

}  // namespace mccl
