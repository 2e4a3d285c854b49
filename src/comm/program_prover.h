// Builds a catalogue program, has it judged, and turns it into the type that the runtime accepts
// (law L8). Nothing else makes a ProvenProgram.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "algorithms/catalog.h"
#include "ir/proven_program.h"
#include "mccl/status.h"
#include "verify/verify.h"

namespace mccl {

// Whether every output is one left fold of the inputs in rank order, or a copy.
bool reduces_in_rank_order(const ProvenProgram& proven);

class ProgramProver {
 public:
  // NotProven with the verifier's findings when it says no.
  static Result<std::shared_ptr<const ProvenProgram>> prove(Program program);

  // With a verdict that was asked for elsewhere, of this very program: proven, or
  // computes_wrongly() where the user has allowed that (comm/program_library.h).
  static std::shared_ptr<const ProvenProgram> accept(Program program, Verdict verdict);

  // The choice's program for `rank_count` ranks, which it serves; built and judged at first use,
  // kept afterwards. Not thread-safe.
  Result<std::shared_ptr<const ProvenProgram>> find(const ProgramChoice& choice, int rank_count);

 private:
  // By algorithm, group size and rank count.
  std::map<std::tuple<const Algorithm*, int, int>, std::shared_ptr<const ProvenProgram>> proven_;
};

}  // namespace mccl
