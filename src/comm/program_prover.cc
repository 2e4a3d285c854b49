#include "comm/program_prover.h"

#include <utility>

#include "verify/verify.h"

namespace mccl {

Result<std::shared_ptr<const ProvenProgram>> ProgramProver::prove(Program program) {
  Verdict verdict = verify(program);
  if (!verdict.is_proven())
    return Status(StatusCode::NotProven,
                  "program " + program.name + " for " + std::to_string(program.rank_count()) +
                      " ranks is not proven and does not run: " + verdict.to_string());
  return std::shared_ptr<const ProvenProgram>(
      new ProvenProgram(std::move(program), std::move(verdict.proof)));
}

Result<std::shared_ptr<const ProvenProgram>> ProgramProver::find(const Algorithm& algorithm,
                                                                 int rank_count) {
  std::shared_ptr<const ProvenProgram>& proven = proven_[{&algorithm, rank_count}];
  if (proven != nullptr) return proven;
  Result<Program> program = algorithm.build(rank_count);
  if (!program.is_ok()) return program.status();
  Result<std::shared_ptr<const ProvenProgram>> result = prove(std::move(program).value());
  if (result.is_ok()) proven = result.value();
  return result;
}

}  // namespace mccl
