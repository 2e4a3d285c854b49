#include <gtest/gtest.h>

#include "ir/xml.h"
#include "xml_programs.h"

namespace mccl {
namespace {

void expect_round_trip(const Program& program, XmlDialect dialect, const ProgramUse& use = {}) {
  const Result<std::string> text = write_xml(program, dialect, use);
  ASSERT_TRUE(text.is_ok()) << text.status().to_string();
  const XmlReadResult read = read_xml(text.value());
  ASSERT_TRUE(read.is_ok()) << read.to_string("text") << "\n" << text.value();
  EXPECT_EQ(read.dialect, dialect);
  EXPECT_EQ(read.program, program) << text.value();
  EXPECT_EQ(read.use, use) << text.value();
  EXPECT_EQ(write_xml(read.program, dialect, read.use).value(), text.value());
}

ProgramUse make_random_use(Prng* prng) {
  ProgramUse use;
  use.begin_bytes = static_cast<int64_t>(prng->next() % 100) << (prng->next() % 50);
  if (prng->next() % 2 == 0)
    use.end_bytes = use.begin_bytes + 2 + static_cast<int64_t>(prng->next() % 1000);
  use.protocol = static_cast<ProgramProtocol>(prng->next() % 3);
  if (prng->next() % 2 == 0) use.priority = static_cast<int>(prng->next() >> 33);
  if (prng->next() % 2 == 0) use.topology = "hosts=2,gpus=4";
  if (prng->next() % 2 == 0) use.version = static_cast<int64_t>(prng->next() >> 1);
  return use;
}

TEST(XmlRoundTrip, OurDialectKeepsEveryProgram) {
  Prng prng(1);
  for (int draw = 0; draw < 300; ++draw)
    expect_round_trip(make_random_program(&prng, true), XmlDialect::Mccl, make_random_use(&prng));
}

TEST(XmlRoundTrip, MscclsDialectKeepsEveryProgramWithoutFold) {
  Prng prng(2);
  for (int draw = 0; draw < 300; ++draw)
    expect_round_trip(make_random_program(&prng, false), XmlDialect::Msccl, make_random_use(&prng));
}

TEST(XmlRoundTrip, MscclsDialectCountsTheChunksOfTheLargerBuffer) {
  struct Row {
    Collective collective;
    std::string header;
  };
  const Row rows[] = {
      {Collective::AllReduce, R"(nchunksperloop="2" ngpus="3" coll="allreduce")"},
      {Collective::AllGather, R"(nchunksperloop="6" ngpus="3" coll="allgather")"},
      {Collective::Broadcast, R"(nchunksperloop="2" ngpus="3" coll="broadcast")"},
      {Collective::ReduceScatter, R"(nchunksperloop="6" ngpus="3" coll="reduce_scatter")"},
      {Collective::Reduce, R"(nchunksperloop="2" ngpus="3" coll="reduce")"},
      {Collective::Gather, R"(nchunksperloop="6" ngpus="3" coll="gather")"},
      {Collective::Scatter, R"(nchunksperloop="6" ngpus="3" coll="scatter")"},
      {Collective::AllToAll, R"(nchunksperloop="6" ngpus="3" coll="alltoall")"}};
  for (const Row& row : rows) {
    Program program;
    program.collective = row.collective;
    program.chunk_count = 2;
    program.in_place = row.collective != Collective::AllToAll;
    program.ranks.resize(3);
    const std::string text = write_xml(program, XmlDialect::Msccl).value();
    EXPECT_NE(text.find(row.header), std::string::npos) << text;
    expect_round_trip(program, XmlDialect::Mccl);
    expect_round_trip(program, XmlDialect::Msccl);
  }
}

TEST(XmlRoundTrip, KeepsANameWithCharactersThatXmlEscapes) {
  Program program = make_two_rank_ring();
  program.name = R"( a<b> & "c" 'd' &amp; )";
  expect_round_trip(program, XmlDialect::Mccl);
}

TEST(XmlRoundTrip, KeepsRanksWithoutLanesAndLanesWithoutSteps) {
  Program program;
  program.ranks.resize(2);
  program.ranks[1].lanes.resize(1);
  expect_round_trip(program, XmlDialect::Mccl);
  expect_round_trip(program, XmlDialect::Msccl);
}

TEST(XmlRoundTrip, KeepsTheLargestNumbers) {
  Program program;
  program.collective = Collective::AllGather;
  program.chunk_count = kXmlChunksMax / 2;
  program.ranks.resize(2);
  program.ranks[0].scratch_chunk_count = kXmlChunksMax;
  program.ranks[0].lanes.push_back({1, -1, kXmlChannelMax, {}});
  program.ranks[0].lanes[0].steps.push_back(
      {Opcode::Send, {{0, Buffer::Scratch, 1, kXmlChunksMax - 1}}, {}, {}});
  program.ranks[0].lanes[0].steps.push_back(
      {Opcode::Send, {{0, Buffer::Output, kXmlChunksMax - 1, 1}}, {}, {}});
  expect_round_trip(program, XmlDialect::Mccl);
}

}  // namespace
}  // namespace mccl
