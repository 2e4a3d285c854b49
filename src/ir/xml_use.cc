// See xml_use.h. One form for windows that three runtimes count in two ways:
//
// - Our dialect says the first and the last size, min_bytes and max_bytes.
// - Azure's and RCCL's loaders, which require outofplace, do too; their maxBytes 0 is no limit.
// - microsoft's, whose files have no outofplace, takes sizes below maxBytes, which is 128 MiB where
//   it is absent; a maxBytes of 0 is never.
//
// Here the end is the first size that is too large. A window that holds no call of a byte or more
// is a fault: nobody meant that, and 0 is where the loaders differ.
#include "ir/xml_use.h"

#include <algorithm>
#include <array>
#include <limits>

namespace mccl {
namespace {

constexpr int64_t kNumberMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMicrosoftBytesMax = int64_t{128} << 20;  // of a file that does not say

struct ProtocolRow {
  ProgramProtocol protocol;
  std::string_view mccl;
  std::string_view msccl;
};
constexpr std::array<ProtocolRow, 3> kProtocols = {{
    {ProgramProtocol::Simple, "simple", "Simple"},
    {ProgramProtocol::LowLatency, "low_latency", "LL"},
    {ProgramProtocol::LowLatency128, "low_latency_128", "LL128"},
}};

const ProtocolRow& protocol_row(ProgramProtocol protocol) {
  return kProtocols[static_cast<size_t>(protocol)];
}

void read_protocol(XmlDocument* document, const char* attribute,
                   std::string_view ProtocolRow::*spelling, ProgramUse* use) {
  const auto text = document->read_text(document->root(), attribute);
  if (!text) return;
  for (const ProtocolRow& row : kProtocols) {
    if (row.*spelling != *text) continue;
    use->protocol = row.protocol;
    return;
  }
  document->add_fault(document->root(), attribute,
                      quote_attribute(attribute, *text) + " is not a protocol; there are " +
                          std::string(kProtocols[0].*spelling) + ", " +
                          std::string(kProtocols[1].*spelling) + " and " +
                          std::string(kProtocols[2].*spelling));
}

bool is_topology_name(std::string_view name) {
  return !name.empty() && name.size() <= kXmlNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char byte) { return byte > ' ' && byte <= '~'; });
}

// The attributes that are ours in both dialects.
void read_selection(XmlDocument* document, ProgramUse* use) {
  const pugi::xml_node root = document->root();
  if (root.attribute("priority"))
    use->priority =
        document->read_int(root, "priority", 0, std::numeric_limits<int>::max()).value_or(0);
  if (root.attribute("version"))
    use->version = document->read_number(root, "version", 0, kNumberMax).value_or(0);
  if (!root.attribute("topology")) return;
  use->topology = root.attribute("topology").value();
  if (!is_topology_name(use->topology))
    document->add_fault(root, "topology",
                        quote_attribute("topology", use->topology) +
                            " is not a name: 1 to 255 bytes of printable ASCII without blanks");
}

int64_t end_after(int64_t last_bytes) {
  return last_bytes == kNumberMax ? ProgramUse::kEndless : last_bytes + 1;
}

// Faults a window that holds no call; `end_text` says what its end is in the file's words.
void check_window(XmlDocument* document, const char* begin, const char* end,
                  const std::string& end_text, const ProgramUse& use) {
  if (use.begin_bytes < use.end_bytes && use.end_bytes > 1) return;
  const pugi::xml_node root = document->root();
  document->add_fault(
      root, root.attribute(end) ? end : begin,
      "no call is in the window of " + std::to_string(use.begin_bytes) + " bytes " + end_text);
}

}  // namespace

std::string_view mccl_protocol_name(ProgramProtocol protocol) {
  return protocol_row(protocol).mccl;
}

std::string_view msccl_protocol_name(ProgramProtocol protocol) {
  return protocol_row(protocol).msccl;
}

void read_mccl_use(XmlDocument* document, ProgramUse* use) {
  const pugi::xml_node root = document->root();
  std::optional<int64_t> min = 0;
  std::optional<int64_t> max = kNumberMax;
  if (root.attribute("min_bytes")) min = document->read_number(root, "min_bytes", 0, kNumberMax);
  if (root.attribute("max_bytes")) max = document->read_number(root, "max_bytes", 1, kNumberMax);
  use->begin_bytes = min.value_or(0);
  use->end_bytes = end_after(max.value_or(kNumberMax));
  if (min && max)
    check_window(document, "min_bytes", "max_bytes", "to " + std::to_string(*max), *use);
  if (root.attribute("protocol")) read_protocol(document, "protocol", &ProtocolRow::mccl, use);
  read_selection(document, use);
}

void read_msccl_use(XmlDocument* document, ProgramUse* use) {
  const pugi::xml_node root = document->root();
  read_protocol(document, "proto", &ProtocolRow::msccl, use);
  const bool is_microsoft = !root.attribute("outofplace");
  std::optional<int64_t> min = 0;
  std::optional<int64_t> max = is_microsoft ? kMicrosoftBytesMax : 0;
  if (root.attribute("minBytes")) min = document->read_number(root, "minBytes", 0, kNumberMax);
  if (root.attribute("maxBytes")) max = document->read_number(root, "maxBytes", 0, kNumberMax);
  use->begin_bytes = min.value_or(0);
  if (!max || (*max == 0 && !is_microsoft))
    use->end_bytes = ProgramUse::kEndless;
  else
    use->end_bytes = is_microsoft ? *max : end_after(*max);
  if (min && max)
    check_window(document, "minBytes", "maxBytes",
                 is_microsoft ? "and more, below " + std::to_string(*max) +
                                    " (without outofplace maxBytes is the first size too many)"
                              : "to " + std::to_string(*max),
                 *use);
  read_selection(document, use);
}

Status check_use(const ProgramUse& use) {
  const auto invalid = [](const std::string& text) {
    return Status(StatusCode::InvalidArgument, text);
  };
  if (use.begin_bytes < 0)
    return invalid("the window begins at " + std::to_string(use.begin_bytes) + " bytes");
  if (use.begin_bytes >= use.end_bytes || use.end_bytes <= 1)
    return invalid("no call is in the window of " + std::to_string(use.begin_bytes) +
                   " bytes and more, below " + std::to_string(use.end_bytes));
  if (use.priority < 0) return invalid("priority " + std::to_string(use.priority) + " is below 0");
  if (use.version < 0) return invalid("version " + std::to_string(use.version) + " is below 0");
  if (!use.topology.empty() && !is_topology_name(use.topology))
    return invalid("the topology is not a name: 1 to 255 bytes of printable ASCII without blanks");
  return Status::ok();
}

}  // namespace mccl
