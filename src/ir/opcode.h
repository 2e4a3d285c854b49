// Look-ups generated from opcode.def.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "mccl/program.h"

namespace mccl {

struct OpcodeRow {
  Opcode opcode;
  std::string_view spelling;
  std::string_view msccl;  // empty: MSCCL has no such instruction
  bool receives;
  bool sends;
  int reads;   // source spans; -1: one or more
  int writes;  // destination spans; -1: one or more
  bool reduces;
};

std::span<const OpcodeRow> opcodes();
const OpcodeRow& opcode_row(Opcode opcode);

// By our spelling or by MSCCL's short code; empty when unknown.
std::optional<Opcode> find_opcode(std::string_view spelling);
std::optional<Opcode> find_msccl_opcode(std::string_view code);

// The span whose bytes a sending step puts on the wire *by reference*: the source of a send, the
// destination of recv_copy_send and recv_reduce_copy_send. Null for recv_reduce_send (its message
// is the operation's own memory) and for steps that do not send. Law L3 is about these spans.
const Span* sent_span(const Step& step);

}  // namespace mccl
