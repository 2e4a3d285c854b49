#include "ir/opcode.h"

#include <array>

namespace mccl {
namespace {

constexpr std::array kOpcodes = {
#define MCCL_OPCODE(name, spelling, msccl, receives, sends, reads, writes, reduces) \
  OpcodeRow{Opcode::name, spelling, msccl, receives, sends, reads, writes, reduces},
#include "mccl/opcode.def"
#undef MCCL_OPCODE
};

}  // namespace

std::span<const OpcodeRow> opcodes() {
  return kOpcodes;
}

const OpcodeRow& opcode_row(Opcode opcode) {
  return kOpcodes[static_cast<size_t>(opcode)];
}

std::optional<Opcode> find_opcode(std::string_view spelling) {
  for (const OpcodeRow& row : kOpcodes)
    if (row.spelling == spelling) return row.opcode;
  return std::nullopt;
}

std::optional<Opcode> find_msccl_opcode(std::string_view code) {
  for (const OpcodeRow& row : kOpcodes)
    if (!row.msccl.empty() && row.msccl == code) return row.opcode;
  return std::nullopt;
}

const Span* sent_span(const Step& step) {
  if (step.opcode == Opcode::Send) return &step.sources[0];
  if (step.opcode == Opcode::RecvCopySend || step.opcode == Opcode::RecvReduceCopySend)
    return &step.destinations[0];
  return nullptr;
}

}  // namespace mccl
