// Custom collectives: what a contract is, what is proven of it, and what is refused.
#include <gtest/gtest.h>

#include "mccl/language.h"
#include "verify/reference.h"
#include "verify/verify.h"

namespace mccl {
namespace {

// Every rank gets its left neighbour's two chunks; rank 0 gets nothing.
std::vector<CustomRank> next_contract(int rank_count) {
  std::vector<CustomRank> contract(static_cast<size_t>(rank_count));
  for (int rank = 0; rank < rank_count; ++rank) {
    CustomRank& promise = contract[static_cast<size_t>(rank)];
    promise.input_chunk_count = 2;
    promise.outputs.resize(2);
    if (rank > 0) promise.outputs = {{{rank - 1, 0}}, {{rank - 1, 1}}};
  }
  return contract;
}

Program make_next(int rank_count) {
  ProgramBuilder next("to_next", next_contract(rank_count));
  for (int rank = 1; rank < rank_count; ++rank)
    next.copy(next.input(rank - 1, 0, 2), next.output(rank, 0, 2));
  return next.lower().value();
}

// Rank 2 gets the sum of the first chunks, rank 3 of ranks 0 and 1 alone.
std::vector<CustomRank> sum_contract() {
  std::vector<CustomRank> contract(4);
  for (int rank = 0; rank < 3; ++rank) contract[static_cast<size_t>(rank)].input_chunk_count = 1;
  contract[2].outputs = {{{0, 0}, {1, 0}, {2, 0}}};
  contract[3].outputs = {{{0, 0}, {1, 0}}, {{0, 0}, {1, 0}, {2, 0}}};
  return contract;
}

Program make_sums() {
  ProgramBuilder sums("sums", sum_contract());
  const Chunk pair = sums.reduce(sums.input(0, 0), sums.input(1, 0), sums.scratch(1, 0));
  sums.copy(pair, sums.output(3, 0));
  const Chunk all = sums.reduce(pair, sums.input(2, 0), sums.output(2, 0));
  sums.copy(all, sums.output(3, 1));
  return sums.lower().value();
}

std::string refusal(const Program& program) {
  return verify(program).to_string();
}

TEST(Custom, IsProvenWhenEveryPromiseIsKept) {
  EXPECT_EQ(refusal(make_next(4)), "");
  EXPECT_EQ(refusal(make_sums()), "");
  // The promised sums are two: of ranks 0 and 1, and of all three, the latter on two ranks.
  EXPECT_EQ(verify(make_sums()).proof.output_trees.size(), 2U);
}

TEST(Custom, GivesTheNumbersThatItPromises) {
  ReferenceCall call{.dtype = DataType::UInt8, .block_counts = {1}, .inputs = {}};
  for (const std::byte value : {std::byte{3}, std::byte{5}, std::byte{7}})
    call.inputs.push_back({value});
  call.inputs.emplace_back();
  const Result<std::vector<Bytes>> outputs = execute_reference(make_sums(), call);
  ASSERT_TRUE(outputs.is_ok()) << outputs.status().to_string();
  EXPECT_EQ(outputs.value()[0], Bytes());
  EXPECT_EQ(outputs.value()[2], Bytes{std::byte{15}});
  EXPECT_EQ(outputs.value()[3], (Bytes{std::byte{8}, std::byte{15}}));
}

TEST(Custom, RefusesACopyOfAnotherChunk) {
  Program program = make_next(3);
  program.contract[1].outputs[0] = {{0, 1}};
  EXPECT_EQ(verify(program).findings[0].text,
            "rank 1: output[0] should hold input[1] of rank 0 alone and holds 0:0");
}

TEST(Custom, RefusesASumThatLacksOrHasTooMuch) {
  Program program = make_sums();
  program.contract[3].outputs[0] = {{0, 0}, {2, 0}};
  EXPECT_EQ(verify(program).findings[0].text, "rank 3: output[0] lacks input[0] of rank 2");
  program = make_sums();
  program.contract[2].outputs[0] = {{0, 0}, {2, 0}};
  EXPECT_EQ(verify(program).findings[0].text,
            "rank 2: output[0] holds more than the 2 contributions promised: (2:0 + (0:0 + 1:0))");
}

TEST(Custom, RefusesAnOutputThatIsPromisedAndNeverWritten) {
  Program program = make_next(3);
  program.contract[0].outputs[1] = {{2, 0}};
  EXPECT_EQ(verify(program).findings[0].text, "rank 0: output[1] is never written");
}

TEST(Custom, RefusesRanksThatWouldDifferInBits) {
  ProgramBuilder sums("sums", sum_contract());
  Chunk pair = sums.reduce(sums.input(0, 0), sums.input(1, 0), sums.scratch(1, 0));
  sums.copy(pair, sums.output(3, 0));
  sums.reduce(pair, sums.input(2, 0), sums.output(2, 0));
  pair = sums.reduce(sums.input(2, 0), sums.input(1, 0), sums.scratch(1, 1));
  sums.copy(sums.reduce(sums.input(0, 0), pair, sums.scratch(1, 2)), sums.output(3, 1));
  EXPECT_EQ(verify(sums.lower().value()).findings[0].text,
            "output[0] is (2:0 + (0:0 + 1:0)) on rank 2 and output[1] (0:0 + (1:0 + 2:0)) on rank "
            "3");
}

TEST(Custom, RefusesAContractThatDoesNotFitTheProgram) {
  Program program = make_next(3);
  program.contract.pop_back();
  EXPECT_EQ(refusal(program), "structure: the contract is for 2 ranks; the program has 3\n");
  program = make_next(3);
  program.chunk_count = 2;
  EXPECT_EQ(refusal(program),
            "structure: a custom collective has 1 chunk per block, and the program says 2\n");
  program = make_next(3);
  program.in_place = true;
  EXPECT_EQ(refusal(program),
            "structure: the program claims to serve in-place calls, which custom does not have\n");
  program = make_next(3);
  program.contract[1].outputs[0] = {{0, 2}};
  EXPECT_EQ(refusal(program),
            "structure: output[0] of rank 1 is promised input[2] of rank 0, whose input has 2 "
            "chunks\n");
  program = make_next(3);
  program.contract[1].outputs[0] = {{3, 0}};
  EXPECT_EQ(refusal(program),
            "structure: output[0] of rank 1 is promised input[0] of rank 3; the ranks are 0 to "
            "2\n");
  program = make_next(3);
  program.contract[1].outputs[0] = {{0, 1}, {0, 1}};
  EXPECT_EQ(
      refusal(program),
      "structure: output[0] of rank 1 is promised input[1] of rank 0 out of order or twice\n");
}

TEST(Custom, RefusesToPromiseNothing) {
  Program program = make_next(2);
  program.contract[1].outputs = {{}, {}};
  EXPECT_EQ(refusal(program),
            "structure: the program has 0 contributions promised in its outputs; 1 to 64000000 are "
            "allowed\n");
}

TEST(Custom, OnlyACustomCollectiveHasAContract) {
  Program program = make_next(2);
  program.collective = Collective::AllGather;
  EXPECT_EQ(refusal(program),
            "structure: the program has a contract of its own; all_gather has none\n");
}

}  // namespace
}  // namespace mccl
