#include <gtest/gtest.h>

#include "mccl/language.h"

namespace mccl {
namespace {

constexpr SourceLine at(int line) {
  return {"author.cc", line};
}

ProgramBuilder make_builder() {
  return ProgramBuilder("faulty", Collective::AllReduce, 2, 2);
}

std::string fault_of(ProgramBuilder& builder) {
  const Result<Program> program = builder.lower();
  if (program.is_ok()) return "";
  EXPECT_EQ(program.status().code(), StatusCode::InvalidArgument);
  return program.status().message();
}

TEST(Faults, NameACollectiveThatHasNoInPlaceCalls) {
  ProgramBuilder builder("faulty", Collective::AllToAll, 2, 1);
  EXPECT_EQ(fault_of(builder), "faulty: all_to_all has no in-place calls; say serve(false, true)");
}

TEST(Faults, NameAnOutputThatOnlyTheRootHas) {
  ProgramBuilder builder("faulty", Collective::Reduce, 2, 2);
  builder.copy(builder.input(1, 0), builder.output(1, 0), {}, at(4));
  EXPECT_EQ(fault_of(builder),
            "author.cc:4: output[0] of rank 1 is not inside the 0 chunks of output");
}

TEST(Faults, NameInputThatIsNotOutputAndWrittenInPlace) {
  ProgramBuilder builder("faulty", Collective::ReduceScatter, 2, 2);
  builder.serve(true, false);
  builder.copy(builder.input(1, 0, 2), builder.input(1, 2, 2), {}, at(4));
  builder.copy(builder.input(0, 0, 2), builder.input(0, 2, 2), {}, at(5));
  EXPECT_EQ(fault_of(builder),
            "author.cc:5: input[2..4) of rank 0 is written, but is not part of the output of an "
            "in-place call");
}

TEST(Faults, NameARankThatDoesNotExist) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.output(2, 0), {}, at(7));
  EXPECT_EQ(fault_of(builder), "author.cc:7: rank 2 is not one of the 2 ranks");
}

TEST(Faults, NameAPlaceOutsideItsBuffer) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 1, 2), builder.output(1, -1, 2), {}, at(7));
  EXPECT_EQ(fault_of(builder),
            "author.cc:7: input[1..3) of rank 0 is not inside the 2 chunks of input\n"
            "author.cc:7: output[-1..1) of rank 1 is not inside the 2 chunks of output");
}

TEST(Faults, DoNotOverflowOnAHugeCount) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.scratch(0, 2147483647, 1), builder.output(1, 0), {}, at(3));
  EXPECT_EQ(fault_of(builder),
            "author.cc:3: scratch[2147483647] of rank 0 is not inside the 1048576 chunks of "
            "scratch");
}

TEST(Faults, NameSpansOfDifferentLength) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0, 2), builder.output(1, 0), {}, at(9));
  EXPECT_EQ(fault_of(builder),
            "author.cc:9: input[0..2) of rank 0 and output[0] of rank 1 differ in their number of "
            "chunks");
}

TEST(Faults, NameOverlappingOperands) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.scratch(0, 0), {}, at(1));
  builder.copy(builder.scratch(0, 0), builder.scratch(0, 0), {}, at(2));
  builder.copy(builder.input(0, 0, 2), builder.scratch(0, 1, 2), {}, at(3));
  builder.copy(builder.scratch(0, 0, 2), builder.scratch(0, 1, 2), {}, at(4));
  builder.reduce(builder.input(0, 0), builder.input(0, 0), builder.output(0, 0), {}, at(5));
  EXPECT_EQ(fault_of(builder),
            "author.cc:2: scratch[0] of rank 0 and scratch[0] of rank 0 overlap\n"
            "author.cc:4: scratch[0..2) of rank 0 and scratch[1..3) of rank 0 overlap\n"
            "author.cc:5: input[0] of rank 0 and input[0] of rank 0 overlap");
}

TEST(Faults, NameOperandsThatOverlapPartlyInPlace) {
  ProgramBuilder builder("faulty", Collective::AllReduce, 1, 3);
  builder.copy(builder.input(0, 0, 2), builder.output(0, 1, 2), {}, at(4));
  EXPECT_EQ(fault_of(builder),
            "author.cc:4: input[0..2) of rank 0 and output[1..3) of rank 0 overlap partly in an "
            "in-place call");
  ProgramBuilder apart("fine", Collective::AllReduce, 1, 3);
  apart.serve(false, true);
  apart.copy(apart.input(0, 0, 2), apart.output(0, 1, 2), {}, at(4));
  EXPECT_EQ(fault_of(apart), "");
}

TEST(Faults, NameAPlaceThatIsReadBeforeItIsWritten) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.scratch(0, 0), {}, at(1));
  builder.copy(builder.scratch(0, 0, 2), builder.output(1, 0, 2), {}, at(2));
  builder.copy(builder.output(1, 0, 2), builder.output(0, 0, 2), {}, at(3));
  EXPECT_EQ(fault_of(builder),
            "author.cc:2: scratch[1] of rank 0 is read before anything was written to it");
}

TEST(Faults, KnowThatOnlyTheRootHasInputInABroadcast) {
  ProgramBuilder builder("faulty", Collective::Broadcast, 2, 1);
  builder.copy(builder.input(1, 0), builder.output(0, 0), {}, at(6));
  EXPECT_EQ(fault_of(builder),
            "author.cc:6: input[0] of rank 1 is read before anything was written to it");
}

TEST(Faults, RefuseToWriteTheInputOfAnOutOfPlaceCall) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.input(1, 0), {}, at(6));
  EXPECT_EQ(fault_of(builder),
            "author.cc:6: input[0] of rank 1 is written, but the program claims to serve "
            "out-of-place calls");
}

TEST(Faults, NameAResultOnAnotherRankThanTheStayingOperand) {
  ProgramBuilder builder = make_builder();
  builder.reduce(builder.input(0, 0), builder.input(1, 0), builder.output(0, 0), {}, at(6));
  EXPECT_EQ(fault_of(builder),
            "author.cc:6: the result output[0] of rank 0 is not on the rank of input[0] of rank 1");
}

TEST(Faults, DoNotRepeatThemselvesInStatementsThatReadTheResult) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0, 2), builder.scratch(0, 3), {}, at(1));
  builder.copy(builder.scratch(0, 3), builder.output(1, 0), {}, at(2));
  EXPECT_EQ(fault_of(builder),
            "author.cc:1: input[0..2) of rank 0 and scratch[3] of rank 0 differ in their number of "
            "chunks");
}

TEST(Faults, NameAFoldOverTwoRanksAndAnEmptyOne) {
  ProgramBuilder builder = make_builder();
  builder.fold({builder.input(0, 0), builder.input(1, 0)}, {builder.output(0, 0)}, {}, at(6));
  builder.fold({}, {builder.output(0, 0)}, {}, at(7));
  EXPECT_EQ(fault_of(builder),
            "author.cc:6: a fold is local, but input[0] of rank 1 and output[0] of rank 0 are on "
            "two ranks\n"
            "author.cc:7: a fold needs at least one source and one destination");
}

TEST(Faults, NamePlacementsThatDoNotExist) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.output(1, 0), {.channel = 1024, .send_lane = -2},
               at(6));
  EXPECT_EQ(fault_of(builder),
            "author.cc:6: channel 1024 is not in 0..1023\n"
            "author.cc:6: lane key -2 is negative");
}

TEST(Faults, NameAKeyedLaneThatWouldNeedTwoPeersOrChannels) {
  ProgramBuilder builder("faulty", Collective::AllReduce, 3, 2);
  builder.copy(builder.input(0, 0), builder.output(1, 0), {.channel = 0, .send_lane = 5}, at(1));
  builder.copy(builder.input(0, 0), builder.output(2, 0), {.channel = 1, .send_lane = 5}, at(2));
  EXPECT_EQ(fault_of(builder),
            "author.cc:2: lane 5 of rank 0 would send to ranks 1 and 2\n"
            "author.cc:2: lane 5 of rank 0 would use channels 0 and 1");
}

TEST(Faults, NameTwoKeyedLanesOnOneStream) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 0), builder.output(1, 0), {.channel = 2, .send_lane = 0}, at(1));
  builder.copy(builder.input(0, 1), builder.output(1, 1), {.channel = 2, .send_lane = 1}, at(2));
  EXPECT_EQ(fault_of(builder),
            "author.cc:2: the message from rank 0 to rank 1 shares channel 2 with one that the "
            "lane keys put into another lane");
}

TEST(Faults, NameAProgramWithoutRanksChunksOrClaims) {
  ProgramBuilder builder("empty", Collective::AllReduce, 0, 0);
  builder.serve(false, false);
  EXPECT_EQ(fault_of(builder),
            "empty: a program needs at least one rank\n"
            "empty: a program needs at least one chunk\n"
            "empty: a program must serve in-place or out-of-place calls");
}

TEST(Faults, CarryTheLineOfTheCallByDefault) {
  ProgramBuilder builder = make_builder();
  builder.copy(builder.input(0, 5), builder.output(1, 0));
  const std::string line = std::to_string(__LINE__ - 1);
  EXPECT_NE(fault_of(builder).find("fault_test.cc:" + line + ": input[5]"), std::string::npos);
}

}  // namespace
}  // namespace mccl
