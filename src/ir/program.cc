#include "mccl/program.h"

#include "base/check.h"
#include "ir/collective.h"
#include "ir/opcode.h"

namespace mccl {

int buffer_chunk_count(const Program& program, int rank, Buffer buffer) {
  if (buffer == Buffer::Scratch)
    return program.ranks[static_cast<size_t>(rank)].scratch_chunk_count;
  return block_count(program, buffer, rank) * program.chunk_count;
}

int input_alias(const Program& program, int rank, int index) {
  const std::optional<int> shift = in_place_shift(program, rank);
  if (!shift) return -1;
  const int alias = index + *shift;
  return alias >= 0 && alias < buffer_chunk_count(program, rank, Buffer::Output) ? alias : -1;
}

const char* buffer_name(Buffer buffer) {
  switch (buffer) {
    case Buffer::Input:
      return "input";
    case Buffer::Output:
      return "output";
    case Buffer::Scratch:
      return "scratch";
  }
  return "unknown";
}

std::string to_string(const Span& span) {
  std::string text = buffer_name(span.buffer);
  text += "[" + std::to_string(span.index);
  if (span.count != 1)
    text += ".." + std::to_string(int64_t{span.index} + span.count) + ")";
  else
    text += "]";
  return text;
}

std::string to_string(const Program& program, int rank, const StepRef& ref) {
  const Lane& lane = program.ranks[static_cast<size_t>(rank)].lanes[static_cast<size_t>(ref.lane)];
  const Step& step = lane.steps[static_cast<size_t>(ref.step)];
  const OpcodeRow& row = opcode_row(step.opcode);
  std::string text = "rank " + std::to_string(rank) + " lane " + std::to_string(ref.lane) +
                     " step " + std::to_string(ref.step) + ": " + std::string(row.spelling);
  const char* separator = " ";
  for (const Span& span : step.destinations) {
    text += separator + to_string(span);
    separator = ", ";
  }
  separator = " <- ";
  if (row.receives) {
    text += separator + std::string("message from ") + std::to_string(lane.recv_peer);
    separator = ", ";
  }
  for (const Span& span : step.sources) {
    text += separator + to_string(span);
    separator = ", ";
  }
  if (row.sends) text += " -> message to " + std::to_string(lane.send_peer);
  if (row.receives || row.sends) text += " on channel " + std::to_string(lane.channel);
  return text;
}

}  // namespace mccl
