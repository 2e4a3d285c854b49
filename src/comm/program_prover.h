// Builds a catalogue program, has it judged, and turns it into the type that the runtime accepts
// (law L8). Nothing else makes a ProvenProgram.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "algorithms/catalog.h"
#include "ir/proven_program.h"
#include "mccl/status.h"

namespace mccl {

class ProgramProver {
 public:
  // NotProven with the verifier's findings when it says no.
  static Result<std::shared_ptr<const ProvenProgram>> prove(Program program);

  // The catalogue's program for `rank_count` ranks, built and judged at first use, kept afterwards.
  // Not thread-safe.
  Result<std::shared_ptr<const ProvenProgram>> find(const Algorithm& algorithm, int rank_count);

 private:
  std::map<std::pair<const Algorithm*, int>, std::shared_ptr<const ProvenProgram>> proven_;
};

}  // namespace mccl
