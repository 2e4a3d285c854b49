// What the loaders of MSCCL's runtimes refuse or damage of a file that is right by itself: their
// limits, the attributes that they require, and what their parsers cannot read.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ir/xml.h"

namespace mccl {

enum class XmlTarget : uint8_t {
  Mccl,      // us: no limits but those of reader and verifier
  Msccl,     // microsoft/msccl
  Executor,  // Azure/msccl-executor-nccl
  Rccl,      // ROCm/rccl
};

std::string_view target_name(XmlTarget target);  // "mccl", "msccl", "executor", "rccl"
std::optional<XmlTarget> find_target(std::string_view name);

// In document order. `read` is what read_xml() made of `text`, without faults. A text in our
// dialect is judged by what write_xml() makes of it in MSCCL's; faults stand at our elements all
// the same.
std::vector<XmlFault> check_target(std::string_view text, const XmlReadResult& read,
                                   XmlTarget target);

}  // namespace mccl
