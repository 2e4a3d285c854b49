// MSCCL_CONFIG: a list of program files, each with a size window and a protocol of its own.
//
//   <msccl_algos>
//     <load path="a.xml" minbytes="0" maxbytes="65536" proto="LL"/>
//   </msccl_algos>
//
// microsoft/msccl reads minbytes and maxbytes, its own writer says minBytes and maxBytes: both are
// read here. A maxbytes of -1 or 0, or none, is no limit; else the first size that is too large.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/xml.h"

namespace mccl {

struct ProgramListEntry {
  std::string path;
  int64_t begin_bytes = 0;
  int64_t end_bytes = ProgramUse::kEndless;
  std::optional<ProgramProtocol> protocol = {};  // none: the file's own
  bool operator==(const ProgramListEntry&) const = default;
};

struct ProgramListResult {
  std::vector<ProgramListEntry> entries;
  // Some window is spelled as microsoft/msccl writes and does not read it.
  bool has_written_spelling = false;
  std::vector<XmlFault> faults;  // in document order
  bool is_ok() const { return faults.empty(); }
};

// At most kProgramListMax entries.
constexpr int kProgramListMax = 1024;

ProgramListResult read_program_list(std::string_view text);

}  // namespace mccl
