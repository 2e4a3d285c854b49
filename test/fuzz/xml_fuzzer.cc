// Any bytes are either refused with placed faults, or are a program that survives writing and
// reading in both dialects, whose text is canonical, and whose steps have places.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "ir/xml.h"
#include "ir/xml_target.h"

namespace mccl {
namespace {

void check_faults(const std::vector<XmlFault>& faults, std::string_view text) {
  const XmlFault* previous = nullptr;
  for (const XmlFault& fault : faults) {
    MCCL_CHECK(fault.line >= 1 && fault.column >= 1 && !fault.text.empty());
    MCCL_CHECK_LE(static_cast<size_t>(fault.line) + static_cast<size_t>(fault.column),
                  text.size() + 2);
    if (previous != nullptr) MCCL_CHECK_LE(previous->line, fault.line);
    previous = &fault;
  }
}

// Every step stands where the reader says, and no loader's limits upset us.
void check_places(const XmlReadResult& read, std::string_view text) {
  for (const XmlRankOffsets& rank : read.offsets)
    for (const XmlLaneOffsets& lane : rank.lanes)
      for (const uint32_t step : lane.steps) MCCL_CHECK(text.substr(step).starts_with("<step"));
  for (const XmlTarget target : {XmlTarget::Msccl, XmlTarget::Executor, XmlTarget::Rccl})
    check_faults(check_target(text, read, target), text);
}

void check_round_trip(const Program& program, const ProgramUse& use, XmlDialect dialect) {
  const Result<std::string> text = write_xml(program, dialect, use);
  // MSCCL's dialect cannot say everything; ours can.
  if (!text.is_ok()) MCCL_CHECK(dialect == XmlDialect::Msccl);
  if (!text.is_ok()) return;
  const XmlReadResult read = read_xml(text.value());
  const std::string faults = read.to_string("written");
  MCCL_CHECK_EQ(faults, "");
  MCCL_CHECK(read.dialect == dialect);
  MCCL_CHECK(read.program == program);
  MCCL_CHECK(read.use == use);
  const Result<std::string> again = write_xml(read.program, dialect, read.use);
  MCCL_CHECK(again.is_ok());
  MCCL_CHECK_EQ(again.value(), text.value());
}

}  // namespace
}  // namespace mccl

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(data, data + size);
  const mccl::XmlReadResult read = mccl::read_xml(text);
  mccl::check_faults(read.faults, text);
  if (!read.is_ok()) return 0;
  mccl::check_places(read, text);
  mccl::check_round_trip(read.program, read.use, mccl::XmlDialect::Mccl);
  mccl::check_round_trip(read.program, read.use, mccl::XmlDialect::Msccl);
  return 0;
}
