// A program: one collective algorithm for a given number of ranks, as plain values.
//
// A program speaks about chunks. Each *block* of a buffer (a rank's share; all_reduce and broadcast
// have one block, all_gather's output has one per rank) is cut into `chunk_count` chunks of
// ceil(count / chunk_count) elements, the last ones shorter or empty (law L4). Programs do not know
// element counts, types, slices or instances: those belong to the call's plan.
//
// Order (law L1): a lane runs all its steps on slice 0, then all on slice 1, and so on. A step
// waits for its message, its credit and its dependences, then takes and gives in one transition.
// Each step that sends (receives) gives (takes) exactly one message per iteration, of all chunks of
// its span.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "mccl/types.h"

namespace mccl {

// A buffer of the call. Scratch belongs to the operation and is undefined when it starts.
enum class Buffer : uint8_t { Input, Output, Scratch };

// `count` neighbouring chunks of a buffer on `rank`. The chunk index runs over blocks first:
// chunk c of block b is index b * chunk_count + c. A foreign rank is legal only inside a memory
// domain, which no program can declare yet; the verifier refuses it.
struct Span {
  int rank = 0;
  Buffer buffer = Buffer::Input;
  int index = 0;
  int count = 1;
  auto operator<=>(const Span&) const = default;
};

enum class Opcode : uint8_t {
#define MCCL_OPCODE(name, spelling, msccl, receives, sends, reads, writes, reduces) name,
#include "mccl/opcode.def"
#undef MCCL_OPCODE
};

// A step of another lane of the same rank.
struct StepRef {
  int lane = 0;
  int step = 0;
  auto operator<=>(const StepRef&) const = default;
};

// One instruction. All spans of a step have the same chunk count; which spans an opcode has is in
// opcode.def. The order of `sources` is the order of a fold.
struct Step {
  Opcode opcode = Opcode::Copy;
  std::vector<Span> sources;
  std::vector<Span> destinations;
  std::vector<StepRef> dependences;  // sorted, unique; the step waits for them in its own iteration
  bool operator==(const Step&) const = default;
};

// A sequential instruction stream of one rank (MSCCL: thread block). It owns at most one send and
// one receive stream end; the stream is (sender, receiver, channel) and each end has one lane.
struct Lane {
  int send_peer = -1;  // -1: none
  int recv_peer = -1;
  int channel = 0;
  std::vector<Step> steps;
  bool operator==(const Lane&) const = default;
};

struct RankProgram {
  int scratch_chunk_count = 0;
  std::vector<Lane> lanes;
  bool operator==(const RankProgram&) const = default;
};

// An input chunk, as a part of what an output chunk must hold.
struct Contribution {
  int rank = 0;
  int index = 0;
  auto operator<=>(const Contribution&) const = default;
};

// What a custom collective gives one rank and asks of it. Every chunk is a block of its own; all
// blocks of all ranks have the same number of elements, which is the call's.
struct CustomRank {
  int input_chunk_count = 0;
  // By output chunk, sorted and unique: one contribution is a copy of it, several are their
  // reduction, each exactly once; none: the chunk may hold anything.
  std::vector<std::vector<Contribution>> outputs;
  bool operator==(const CustomRank&) const = default;
};

struct Program {
  std::string name;                               // catalogue name, e.g. "all_reduce_ring"
  Collective collective = Collective::AllReduce;  // rooted ones are written for root 0
  int chunk_count = 1;                            // chunks per block
  bool in_place = true;      // claims to be right when output and input alias (see input_alias)
  bool out_of_place = true;  // claims to be right when they do not, and then never writes input
  std::vector<RankProgram> ranks;
  // By rank, for Collective::Custom alone, which has chunk_count 1 and is never in place.
  std::vector<CustomRank> contract = {};

  int rank_count() const { return static_cast<int>(ranks.size()); }
  bool operator==(const Program&) const = default;
};

// Chunks of a buffer on `rank` under the program's collective (blocks times chunk_count, or the
// rank's scratch size). A buffer that the rank does not have, such as a gather's output on another
// rank than the root, has none.
int buffer_chunk_count(const Program& program, int rank, Buffer buffer);

// The output chunk that input chunk `index` of `rank` shares memory with when the call is in place,
// or -1 when it shares none: the same index for all_reduce, reduce and broadcast, the rank's own
// block for all_gather, gather, reduce_scatter and scatter. An all_to_all and a custom collective
// are never in place.
int input_alias(const Program& program, int rank, int index);

// Names for messages: "input", "output", "scratch"; "input[3]" or "scratch[0..2)".
const char* buffer_name(Buffer buffer);
std::string to_string(const Span& span);

// One line: "lane 2 step 5: recv_reduce_copy output[1] <- msg from 3 ch 0, input[1]".
std::string to_string(const Program& program, int rank, const StepRef& ref);

}  // namespace mccl
