// Strict where a loader's silence would hide a mistake: an unknown attribute is a fault. Tests:
// program_list_test.cc.
#include "ir/program_list.h"

#include <string>

#include "ir/xml_document.h"

namespace mccl {
namespace {

constexpr const char* kRoot = "msccl_algos";
constexpr const char* kLoad = "load";

// The attribute as one of two spellings; both is a fault.
const char* spelling_of(XmlDocument& document, pugi::xml_node load, const char* read,
                        const char* written, bool* is_written) {
  const bool has_read = !load.attribute(read).empty();
  const bool has_written = !load.attribute(written).empty();
  if (has_read && has_written)
    document.add_fault(load, written, std::string(written) + " beside " + read);
  *is_written |= has_written;
  if (has_read) return read;
  return has_written ? written : nullptr;
}

std::optional<ProgramProtocol> find_protocol(std::string_view name) {
  if (name == "Simple") return ProgramProtocol::Simple;
  if (name == "LL") return ProgramProtocol::LowLatency;
  if (name == "LL128") return ProgramProtocol::LowLatency128;
  return std::nullopt;
}

ProgramListEntry read_entry(XmlDocument& document, pugi::xml_node load, bool* is_written) {
  ProgramListEntry entry;
  document.check_attributes(load,
                            {"path", "minbytes", "maxbytes", "minBytes", "maxBytes", "proto"});
  if (const auto path = document.read_text(load, "path")) entry.path = *path;
  if (entry.path.empty() && !load.attribute("path").empty())
    document.add_fault(load, "path", "the path is empty");
  if (const char* name = spelling_of(document, load, "minbytes", "minBytes", is_written))
    entry.begin_bytes = document.read_number(load, name, 0, INT64_MAX - 1).value_or(0);
  if (const char* name = spelling_of(document, load, "maxbytes", "maxBytes", is_written)) {
    const int64_t end = document.read_number(load, name, -1, INT64_MAX).value_or(-1);
    if (end > 0) entry.end_bytes = end;
    if (end > 0 && end <= entry.begin_bytes)
      document.add_fault(
          load, name,
          "the window ends at " + std::to_string(end) + ", which is not above where it begins");
  }
  if (load.attribute("proto").empty()) return entry;
  if (const auto protocol = document.read_text(load, "proto")) {
    entry.protocol = find_protocol(*protocol);
    if (!entry.protocol)
      document.add_fault(load, "proto",
                         quote_attribute("proto", *protocol) + " is none of Simple, LL and LL128");
  }
  return entry;
}

}  // namespace

ProgramListResult read_program_list(std::string_view text) {
  ProgramListResult result;
  if (text.size() > kXmlBytesMax) {
    result.faults.push_back({1, 1,
                             std::to_string(text.size()) + " bytes, at most " +
                                 std::to_string(kXmlBytesMax) + " are read"});
    return result;
  }
  XmlDocument document(text);
  if (document.root()) {
    if (std::string_view(document.root().name()) != kRoot)
      document.add_fault(document.root(), "the root is called \"" +
                                              std::string(document.root().name()) +
                                              "\", expected \"" + kRoot + "\"");
    else
      for (const pugi::xml_node load :
           document.read_children(document.root(), kLoad, kProgramListMax))
        result.entries.push_back(read_entry(document, load, &result.has_written_spelling));
  }
  result.faults = document.make_faults();
  return result;
}

}  // namespace mccl
