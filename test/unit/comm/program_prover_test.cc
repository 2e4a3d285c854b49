// Law L8: only what the verifier has proven becomes a program that can run.
#include "comm/program_prover.h"

#include <gtest/gtest.h>

#include <string>

namespace mccl {
namespace {

TEST(ProgramProver, ProvesAProgramOfTheCatalogueOnce) {
  ProgramProver prover;
  const Algorithm& ring = *find_algorithm("all_reduce_ring");
  const auto first = prover.find({&ring, 0}, 3);
  ASSERT_EQ(first.status().to_string(), "ok");
  EXPECT_EQ(first.value()->program().name, "all_reduce_ring");
  EXPECT_EQ(prover.find({&ring, 0}, 3).value(), first.value());
  EXPECT_NE(prover.find({&ring, 0}, 4).value(), first.value());
}

TEST(ProgramProver, HoldsEveryAlgorithmToItsClaims) {
  ProgramProver prover;
  for (const Algorithm* algorithm : catalog())
    for (int rank_count = 1; rank_count <= 6; ++rank_count)
      EXPECT_EQ(
          prover.find(default_program(*algorithm, rank_count), rank_count).status().to_string(),
          "ok");
}

TEST(ProgramProver, RefusesAnAlgorithmThatOnlyClaimsToReduceInRankOrder) {
  ProgramProver prover;
  for (const char* name : {"all_reduce_ring", "reduce_scatter_ring", "reduce_binomial_tree"}) {
    Algorithm liar = *find_algorithm(name);
    liar.reduces_in_rank_order = true;
    // Of two operands there is no order, and one rounding.
    EXPECT_EQ(prover.find({&liar, 0}, 2).status().to_string(), "ok");
    EXPECT_EQ(prover.find({&liar, 0}, 3).status().message(),
              "program " + std::string(name) +
                  " claims to reduce in rank order, rounding once, and does not: it does not run");
  }
}

TEST(ProgramProver, RefusesAProgramThatDropsAContribution) {
  Program program = find_algorithm("all_reduce_ring")->build(2).value();
  for (RankProgram& rank : program.ranks)
    for (Lane& lane : rank.lanes)
      for (Step& step : lane.steps)
        if (step.opcode == Opcode::RecvReduceCopySend) {
          step.opcode = Opcode::RecvCopySend;
          step.sources.clear();
        }
  const Status status = ProgramProver::prove(std::move(program)).status();
  EXPECT_EQ(status.code(), StatusCode::NotProven);
  EXPECT_EQ(
      status.message().find("program all_reduce_ring for 2 ranks is not proven and does not run: "),
      0U)
      << status.message();
}

}  // namespace
}  // namespace mccl
