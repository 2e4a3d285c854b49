// The chunk language: an algorithm is a few loops of copy, reduce and fold over chunks of all
// ranks. Lanes, channels, fusion into receive-reduce-send and dependences are worked out by
// lower().
//
//   ProgramBuilder ring("all_reduce_ring", Collective::AllReduce, rank_count, rank_count);
//   Chunk value = ring.input(0, 0);
//   value = ring.reduce(value, ring.input(1, 0), ring.output(1, 0));
//   value = ring.copy(value, ring.output(2, 0));
//   Result<Program> program = ring.lower();
//
// A statement whose operands lie on two ranks moves a message. Statements take effect in the order
// in which they are written, on the whole machine at once; lower() keeps every dependence of that
// order and nothing more. See src/algorithms for complete programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mccl/program.h"
#include "mccl/status.h"

namespace mccl {

// A place: `count` neighbouring chunks of a buffer of a rank. A value type; naming a place reads
// nothing.
struct Chunk {
  int rank = 0;
  Buffer buffer = Buffer::Input;
  int index = 0;
  int count = 1;
  bool operator==(const Chunk&) const = default;
};

// Where the author wants a statement; -1 leaves it to lower().
struct Placement {
  int channel = -1;  // of the message
  // Statements of one rank with the same lane key share a lane; different keys never do. A key is
  // any number from 0; lower() refuses a lane that would need two send or two receive peers.
  int send_lane = -1;  // of the message's sending half (and of local statements)
  int recv_lane = -1;  // of its receiving half
};

// The author's line, for messages; filled in by default arguments, do not pass it.
struct SourceLine {
  const char* file = "";
  int line = 0;
  static SourceLine current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Which chunks an instance has (ProgramBuilder::set_instances). What a collective computes is the
// same under both, but a span over several chunks stays one span only under Blocks, and one over
// several blocks under neither; lower() takes the other one where that keeps more spans whole.
enum class InstanceLayout : uint8_t {
  Interleaved,  // chunk c of instance i is chunk c * instances + i
  Blocks,       // instance i has the i-th part of every block
};

// The statement that each step comes from: [rank][lane][step].
using StepLines = std::vector<std::vector<std::vector<SourceLine>>>;

// Records statements. Not thread-safe. Faults (a rank or index out of range, overlapping operands,
// reading a place never written) are collected with the author's line and all reported by lower().
class ProgramBuilder {
 public:
  ProgramBuilder(std::string name, Collective collective, int rank_count, int chunk_count);
  // A custom collective: what each rank has and must get.
  ProgramBuilder(std::string name, std::vector<CustomRank> contract);
  ~ProgramBuilder();
  ProgramBuilder(ProgramBuilder&&) noexcept;

  Chunk input(int rank, int index, int count = 1) const;
  Chunk output(int rank, int index, int count = 1) const;
  // Scratch grows to the highest index named.
  Chunk scratch(int rank, int index, int count = 1) const;

  // to = from. Returns `to`. Between ranks: one message.
  Chunk copy(Chunk from, Chunk to, Placement placement = {},
             SourceLine line = SourceLine::current());

  // result = op(moving, staying), where `result` is on staying's rank. Returns `result`. When
  // `moving` lies on another rank it travels as one message. `result` may equal `staying`.
  Chunk reduce(Chunk moving, Chunk staying, Chunk result, Placement placement = {},
               SourceLine line = SourceLine::current());

  // Every destination = left fold of the sources in their order, rounded once; all on one rank.
  void fold(const std::vector<Chunk>& sources, const std::vector<Chunk>& destinations,
            Placement placement = {}, SourceLine line = SourceLine::current());

  // What the program claims (default: both); see Program.
  void serve(bool in_place, bool out_of_place);

  // For tests and for bisecting a wrong program: false keeps every receive, reduce and send apart.
  void set_fusion(bool is_on);

  // The program `count` times side by side, each copy on lanes, channels and chunks of its own:
  // lane l becomes lanes l * count + i, channel c of copy i is i * (channels of one) + c, and the
  // program has `count` times the chunks. Requires count >= 1.
  void set_instances(int count, InstanceLayout layout = InstanceLayout::Interleaved);

  // Waits of a lane's local reduces before its first one, so that a runtime which chains
  // neighbouring reduces may do so; not where the program could then stop (default: off).
  void set_early_waits(bool is_on);

  // The lowered program: deterministic, the same statements give the same program. InvalidArgument
  // with every fault, one per line, "file:line: text". May be called once.
  Result<Program> lower();

  // Of the program that lower() returned; empty before. The files' names are the caller's.
  const StepLines& step_lines() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mccl
