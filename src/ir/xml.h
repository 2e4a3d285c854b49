// Programs as text: XML in and out.
//
// Reading takes every dialect that notes on MSCCL list (microsoft/msccl, Azure's, RCCL's) and ours,
// reports all faults at once with line and column, and trusts no number. Reading proves nothing:
// what comes out still goes through the verifier.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mccl/program.h"
#include "mccl/status.h"

namespace mccl {

enum class XmlDialect : uint8_t {
  Mccl,   // ours: long names, several dependences per step, fold
  Msccl,  // microsoft/msccl's: short codes, nop steps for further dependences; no fold
};

// MSCCL's protocols are ways of a GPU to signal that bytes have come and have no meaning here:
// Simple is the bulk path, LL and LL128 select the path of small messages.
enum class ProgramProtocol : uint8_t { Simple, LowLatency, LowLatency128 };

// "simple", "low_latency", "low_latency_128"; MSCCL's are Simple, LL, LL128.
std::string_view mccl_protocol_name(ProgramProtocol protocol);
std::string_view msccl_protocol_name(ProgramProtocol protocol);

// For which calls a file is meant, beside what its program claims: the file's own words, whatever
// the dialect, brought to one form. Sizes are those of a call as spec and planner count them: bytes
// of the larger buffer (S in algorithms/catalog.h).
struct ProgramUse {
  int64_t begin_bytes = 0;       // calls of at least so many bytes
  int64_t end_bytes = kEndless;  // and of fewer; kEndless: no limit
  ProgramProtocol protocol = ProgramProtocol::Simple;
  int priority = 0;           // of two files that may serve a call the higher one does
  std::string topology = {};  // a name that must be the job's; empty: any
  int64_t version = 0;        // of the file, by its author; 0: none
  bool operator==(const ProgramUse&) const = default;

  static constexpr int64_t kEndless = INT64_MAX;
};

struct XmlFault {
  int line = 0;    // 1-based
  int column = 0;  // 1-based, in bytes
  std::string text;
};

// Where a program's parts stand in its text: bytes from the start to the element.
struct XmlLaneOffsets {
  uint32_t lane = 0;
  std::vector<uint32_t> steps;
};
struct XmlRankOffsets {
  uint32_t rank = 0;
  std::vector<XmlLaneOffsets> lanes;
};

struct XmlReadResult {
  Program program;  // valid only when there are no faults
  ProgramUse use;
  XmlDialect dialect = XmlDialect::Mccl;
  std::vector<XmlFault> faults;  // in document order
  size_t root_offset = 0;
  std::vector<XmlRankOffsets> offsets;  // empty when there are faults
  // Of a rank, lane or step, -1 where something larger is meant: its root for the program.
  size_t offset_of(int rank, int lane, int step) const;
  bool is_ok() const { return faults.empty(); }
  // "name:line:column: text", one fault per line.
  std::string to_string(std::string_view file_name) const;
};

// Limits on what is read; each excess is a fault with both numbers.
constexpr size_t kXmlBytesMax = 256u << 20;
constexpr int kXmlRanksMax = 4096;
constexpr int kXmlChunksMax = 1 << 20;  // of one buffer of one rank, over all its blocks
constexpr int kXmlChannelMax = 1023;
constexpr size_t kXmlNameBytesMax = 255;
constexpr size_t kXmlFaultsMax = 10000;  // where reading stops and says so

XmlReadResult read_xml(std::string_view text);

// Line and column, 1-based, column in bytes.
struct XmlPosition {
  int line = 1;
  int column = 1;
  auto operator<=>(const XmlPosition&) const = default;
};
XmlPosition find_position(std::string_view text, size_t offset);

// Canonical: the same program gives the same bytes, and write(read(write(p))) == write(p). An error
// names the first instruction or field that the dialect cannot say. A `use` that says nothing is
// left out in our dialect; MSCCL's always has protocol and window.
Result<std::string> write_xml(const Program& program, XmlDialect dialect,
                              const ProgramUse& use = {});

}  // namespace mccl
