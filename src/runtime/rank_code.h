// A proven program as one rank runs it: steps with everything looked up beforehand that does not
// depend on the call. Made once per (program, rank), shared by all its operations, never changed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ir/proven_program.h"

namespace mccl {

struct Operand {
  Buffer buffer = Buffer::Input;
  int index = 0;  // first chunk
};

struct StepCode {
  Opcode opcode = Opcode::Copy;
  bool receives = false;
  bool sends = false;
  int chunk_count = 1;
  std::vector<Operand> sources;
  std::vector<Operand> destinations;
  // One per chunk. Here `block` counts the blocks that the rank itself has, first those of its
  // output, then those of its input: a chunk that only passes through is as long as they are.
  std::vector<Origin> origins;
  struct Dependence {
    int lane;
    int step;
  };
  std::vector<Dependence> dependences;
  struct CaptureWait {
    int lane;
    int send_index;  // which of the lane's sends in an iteration, from 0
  };
  std::vector<CaptureWait> capture_waits;
  std::vector<int> dependents;  // lanes that wait for this step
};

struct LaneCode {
  int send_peer = -1;
  int recv_peer = -1;
  int channel = 0;
  std::vector<StepCode> steps;
  int sends_per_iteration = 0;
  int receives_per_iteration = 0;
  int last_send_step = -1;
  int last_recv_step = -1;
  int received_chunks_max = 0;  // most chunks in one message
};

struct RankCode {
  std::shared_ptr<const ProvenProgram> program;  // kept alive
  int rank = 0;
  int scratch_chunk_count = 0;
  std::vector<LaneCode> lanes;
};

std::shared_ptr<const RankCode> make_rank_code(std::shared_ptr<const ProvenProgram> program,
                                               int rank);

}  // namespace mccl
