// The only type that the runtime accepts (law L8): a program together with what its proof found.
// Only comm's ProgramProver makes one, by asking the verifier; nothing else can.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mccl/program.h"

namespace mccl {

// The chunk a value descends from: its length is that of chunk `chunk` of block `block` (law L4).
struct Origin {
  int block = 0;
  int chunk = 0;
  auto operator<=>(const Origin&) const = default;
};

// What the proof says about one step.
struct StepProof {
  std::vector<Origin> origins;  // one per chunk of the step's spans
  // Sending steps of the same rank, ordered before this one, whose sent span this step overwrites
  // without a message having proven that the bytes were read: the runtime waits until they are
  // captured (law L3).
  std::vector<StepRef> capture_waits;
  bool operator==(const StepProof&) const = default;
};

struct Proof {
  std::vector<std::vector<std::vector<StepProof>>> steps;  // [rank][lane][step]
  // One digest per output chunk (index over all blocks) of its tree of reductions (law L5); two
  // programs with equal digests give equal bits. Those of rank 0 where the ranks' differ. Of a
  // custom collective: one per different promise, in the order of ranks and outputs.
  std::vector<uint64_t> output_trees;
  // Every rank reduces every output in the same tree. False only where the judge was asked to let
  // that pass: such a program gives ranks different bits wherever order is visible.
  bool is_bitwise_equal = true;
  int credits_needed =
      1;  // least messages outstanding per stream with which an iteration ends (1, 2)
  bool operator==(const Proof&) const = default;
};

class ProvenProgram {
 public:
  const Program& program() const { return program_; }
  const Proof& proof() const { return proof_; }
  const StepProof& step_proof(int rank, int lane, int step) const {
    return proof_
        .steps[static_cast<size_t>(rank)][static_cast<size_t>(lane)][static_cast<size_t>(step)];
  }

 private:
  friend class ProgramProver;  // src/comm/program_prover.h
  ProvenProgram(Program program, Proof proof)
      : program_(std::move(program)), proof_(std::move(proof)) {}

  Program program_;
  Proof proof_;
};

}  // namespace mccl
