// The rules of a call, in both dialects and both modes.
#include "planner/program_fit.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

LoadedProgram of(Collective collective, int chunk_count, XmlDialect dialect) {
  LoadedProgram loaded;
  loaded.program.collective = collective;
  loaded.program.chunk_count = chunk_count;
  loaded.program.ranks.resize(4);
  loaded.dialect = dialect;
  return loaded;
}

FitRule rule(const LoadedProgram& loaded, const CallFacts& call, bool is_strict) {
  return find_fit(loaded, call, is_strict).rule;
}

constexpr bool kStrict = true;
constexpr bool kAuto = false;

struct DivisibilityCase {
  Collective collective;
  XmlDialect dialect;
  FitRule three_floats;  // a block of 3 float32 (12 bytes) in 4 chunks
};

// microsoft/msccl counts all_gather and broadcast in bytes, everything else in elements; ours
// counts elements.
TEST(ProgramFit, DividesInTheUnitOfTheDialect) {
  for (const DivisibilityCase& row : {
           DivisibilityCase{Collective::AllReduce, XmlDialect::Msccl, FitRule::Divisibility},
           DivisibilityCase{Collective::ReduceScatter, XmlDialect::Msccl, FitRule::Divisibility},
           DivisibilityCase{Collective::AllToAll, XmlDialect::Msccl, FitRule::Divisibility},
           DivisibilityCase{Collective::AllGather, XmlDialect::Msccl, FitRule::Fits},
           DivisibilityCase{Collective::Broadcast, XmlDialect::Msccl, FitRule::Fits},
           DivisibilityCase{Collective::AllReduce, XmlDialect::Mccl, FitRule::Divisibility},
           DivisibilityCase{Collective::AllGather, XmlDialect::Mccl, FitRule::Divisibility},
           DivisibilityCase{Collective::Broadcast, XmlDialect::Mccl, FitRule::Divisibility},
       }) {
    SCOPED_TRACE(collective_name(row.collective));
    const LoadedProgram loaded = of(row.collective, 4, row.dialect);
    EXPECT_EQ(rule(loaded, {.block_count = 3}, kStrict), row.three_floats);
    EXPECT_EQ(rule(loaded, {.block_count = 3}, kAuto), FitRule::Fits);
    EXPECT_EQ(rule(loaded, {.block_count = 8}, kStrict), FitRule::Fits);
    EXPECT_EQ(rule(loaded, {.block_count = 0}, kStrict), FitRule::Fits);
    EXPECT_TRUE(find_fit(loaded, {.block_count = 3}, kAuto).is_ragged);
    EXPECT_FALSE(find_fit(loaded, {.block_count = 8}, kAuto).is_ragged);
  }
}

TEST(ProgramFit, MeetsClaimsStrictlyOrCopies) {
  LoadedProgram loaded = of(Collective::AllReduce, 1, XmlDialect::Mccl);
  loaded.program.out_of_place = false;
  EXPECT_EQ(rule(loaded, {.is_in_place = true}, kStrict), FitRule::Fits);
  EXPECT_EQ(rule(loaded, {.is_in_place = false}, kStrict), FitRule::InPlace);
  EXPECT_FALSE(find_fit(loaded, {.is_in_place = true}, kAuto).copies_input);
  EXPECT_TRUE(find_fit(loaded, {.is_in_place = false}, kAuto).copies_input);
  loaded.program.out_of_place = true;
  loaded.program.in_place = false;
  EXPECT_EQ(rule(loaded, {.is_in_place = true}, kStrict), FitRule::InPlace);
  EXPECT_TRUE(find_fit(loaded, {.is_in_place = true}, kAuto).copies_input);
  EXPECT_FALSE(find_fit(loaded, {.is_in_place = false}, kAuto).copies_input);
}

TEST(ProgramFit, OfARootedCollectiveOnlyBothClaimsAreStrictlyRight) {
  LoadedProgram loaded = of(Collective::Reduce, 1, XmlDialect::Mccl);
  EXPECT_EQ(rule(loaded, {}, kStrict), FitRule::Fits);
  loaded.program.out_of_place = false;
  EXPECT_EQ(rule(loaded, {.is_in_place = true}, kStrict), FitRule::InPlace);
  EXPECT_EQ(describe_fit(FitRule::InPlace, loaded, {}).reason,
            "MCCL_ALGO_FIT=strict, it claims in-place calls only, and only the root of a reduce "
            "can tell");
}

TEST(ProgramFit, AnAllToAllHasNoInPlaceForm) {
  LoadedProgram loaded = of(Collective::AllToAll, 1, XmlDialect::Msccl);
  loaded.program.out_of_place = false;
  EXPECT_EQ(find_fit(loaded, {}, kStrict), Fit{});
}

TEST(ProgramFit, AveragesAreNoOperationOfTheOriginal) {
  const LoadedProgram loaded = of(Collective::AllReduce, 1, XmlDialect::Msccl);
  EXPECT_EQ(rule(loaded, {.op = ReduceOp::Avg}, kStrict), FitRule::ReductionOp);
  EXPECT_EQ(rule(loaded, {.op = ReduceOp::BitOr}, kStrict), FitRule::ReductionOp);
  EXPECT_EQ(rule(loaded, {.op = ReduceOp::BitOr}, kAuto), FitRule::Fits);
  for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Min, ReduceOp::Max})
    EXPECT_EQ(rule(loaded, {.op = op}, kStrict), FitRule::Fits);
  EXPECT_EQ(describe_fit(FitRule::ReductionOp, loaded, {.op = ReduceOp::Avg}).reason,
            "MCCL_ALGO_FIT=strict, and avg is no operation of MSCCL");
  EXPECT_TRUE(find_fit(loaded, {.op = ReduceOp::Avg}, kAuto).averages);
  EXPECT_FALSE(
      find_fit(of(Collective::AllGather, 1, XmlDialect::Msccl), {.op = ReduceOp::Avg}, kAuto)
          .averages);
}

TEST(ProgramFit, UnequalBlocksAreServedUnlessStrict) {
  const LoadedProgram loaded = of(Collective::AllGather, 1, XmlDialect::Mccl);
  EXPECT_EQ(rule(loaded, {.has_equal_blocks = false}, kAuto), FitRule::Fits);
  EXPECT_EQ(rule(loaded, {.has_equal_blocks = false}, kStrict), FitRule::EqualBlocks);
}

TEST(ProgramFit, OrderShowsInSumsAndProductsOfFloatsAlone) {
  LoadedProgram loaded = of(Collective::AllReduce, 1, XmlDialect::Mccl);
  loaded.is_bitwise_equal = false;
  for (const DataType dtype :
       {DataType::Float64, DataType::Float32, DataType::Float16, DataType::BFloat16}) {
    for (const ReduceOp op : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Avg})
      EXPECT_EQ(rule(loaded, {.dtype = dtype, .op = op}, kAuto), FitRule::BitEquality);
    for (const ReduceOp op : {ReduceOp::Min, ReduceOp::Max})
      EXPECT_EQ(rule(loaded, {.dtype = dtype, .op = op}, kAuto), FitRule::Fits);
  }
  for (const DataType dtype : {DataType::Int64, DataType::UInt8, DataType::Bool})
    EXPECT_EQ(rule(loaded, {.dtype = dtype}, kAuto), FitRule::Fits);
}

TEST(ProgramFit, ProtocolsAreListedOrExcluded) {
  EXPECT_TRUE(admits_protocol("", ProgramProtocol::LowLatency128));
  EXPECT_TRUE(admits_protocol("simple,ll128", ProgramProtocol::LowLatency128));
  EXPECT_FALSE(admits_protocol("simple,ll128", ProgramProtocol::LowLatency));
  EXPECT_FALSE(admits_protocol("^ll128", ProgramProtocol::LowLatency128));
  EXPECT_TRUE(admits_protocol("^ll128", ProgramProtocol::LowLatency));
}

}  // namespace
}  // namespace mccl
