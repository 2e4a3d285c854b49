#include "comm/program_prover.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ir/collective.h"
#include "verify/verify.h"

namespace mccl {
bool reduces_in_rank_order(const ProvenProgram& proven) {
  const Program& program = proven.program();
  if (!is_reducing(program.collective)) return true;
  const std::vector<uint64_t>& trees = proven.proof().output_trees;
  if (trees.empty() || !proven.proof().is_bitwise_equal) return false;
  const uint64_t wanted = rank_order_tree(program.rank_count());
  return std::all_of(trees.begin(), trees.end(),
                     [wanted](uint64_t tree) { return tree == wanted; });
}

Result<std::shared_ptr<const ProvenProgram>> ProgramProver::prove(Program program) {
  Verdict verdict = verify(program);
  if (!verdict.is_proven())
    return Status(StatusCode::NotProven,
                  "program " + program.name + " for " + std::to_string(program.rank_count()) +
                      " ranks is not proven and does not run: " + verdict.to_string());
  return accept(std::move(program), std::move(verdict));
}

std::shared_ptr<const ProvenProgram> ProgramProver::accept(Program program, Verdict verdict) {
  MCCL_CHECK(verdict.is_proven() || verdict.computes_wrongly());
  return std::shared_ptr<const ProvenProgram>(
      new ProvenProgram(std::move(program), std::move(verdict.proof)));
}

Result<std::shared_ptr<const ProvenProgram>> ProgramProver::find(const ProgramChoice& choice,
                                                                 int rank_count) {
  const Algorithm& algorithm = *choice.algorithm;
  std::shared_ptr<const ProvenProgram>& proven =
      proven_[{&algorithm, choice.group_size, rank_count}];
  if (proven != nullptr) return proven;
  Result<Program> program = build_program(choice, rank_count);
  if (!program.is_ok()) return program.status();
  Result<std::shared_ptr<const ProvenProgram>> result = prove(std::move(program).value());
  if (!result.is_ok()) return result;
  if (algorithm.reduces_in_rank_order && !reduces_in_rank_order(*result.value()))
    return Status(StatusCode::NotProven,
                  "program " + to_string(choice) +
                      " claims to reduce in rank order, rounding once, and does not: it does not "
                      "run");
  proven = result.value();
  return result;
}

}  // namespace mccl
