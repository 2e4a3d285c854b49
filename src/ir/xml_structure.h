// What every program that has an XML text satisfies: the shape of its steps, its bounds and the
// limits of xml.h. One list of rules for the readers of both dialects, which know the place of each
// field in the text, and for the writer, which does not.
#pragma once

#include <functional>
#include <string>

#include "mccl/program.h"

namespace mccl {

// What a finding is about; the readers map it to an attribute.
enum class XmlField : uint8_t {
  Name,
  Ranks,
  Chunks,
  Claims,   // in_place and out_of_place
  Outputs,  // what a custom collective promises a rank
  Scratch,
  Send,
  Recv,
  Channel,
  Op,            // the opcode against its lane's peers
  Sources,       // their number against the opcode
  Destinations,  // their number against the opcode
  Counts,        // spans of unequal length
  Source,        // one source against its buffer
  Destination,   // one destination against its buffer
  Depends,
};

// Where: -1 where the finding is about something larger.
struct XmlPlace {
  int rank = -1;
  int lane = -1;
  int step = -1;
  XmlField field = XmlField::Name;
};

using XmlStructureReport = std::function<void(const XmlPlace&, std::string)>;

// Calls `report` for every rule that `program` breaks, in program order.
void check_xml_structure(const Program& program, const XmlStructureReport& report);

// "rank 1 lane 0 step 3: ", as far as the place goes; empty for the program itself.
std::string to_string(const XmlPlace& place);

}  // namespace mccl
