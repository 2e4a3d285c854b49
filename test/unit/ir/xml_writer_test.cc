#include <gtest/gtest.h>

#include "ir/xml.h"
#include "xml_programs.h"

namespace mccl {
namespace {

// A rank with three lanes whose last step waits for three others, and nothing else.
Program make_fan_in() {
  Program program;
  program.name = "fan_in";
  program.in_place = false;
  program.chunk_count = 2;
  program.ranks.resize(1);
  program.ranks[0].scratch_chunk_count = 4;
  const Span input{0, Buffer::Input, 0, 2};
  const Span scratch{0, Buffer::Scratch, 2, 2};
  const Span output{0, Buffer::Output, 0, 2};
  const Step copy{Opcode::Copy, {input}, {scratch}, {}};
  Lane waiting;
  waiting.steps.push_back({Opcode::Reduce, {scratch}, {output}, {{1, 0}, {1, 1}, {2, 0}}});
  waiting.steps.push_back({Opcode::Copy, {scratch}, {output}, {}});
  Lane second{-1, -1, 3, {copy, {Opcode::Copy, {input}, {output}, {{2, 0}}}}};
  Lane third{-1, -1, 0, {{Opcode::Copy, {input}, {scratch}, {{0, 1}, {1, 0}}}}};
  program.ranks[0].lanes = {waiting, second, third};
  return program;
}

std::string error(const Program& program, XmlDialect dialect) {
  return write_xml(program, dialect).status().to_string();
}

TEST(XmlWriter, WritesTheTwoRankRingByteForByte) {
  EXPECT_EQ(write_xml(make_two_rank_ring(), XmlDialect::Mccl).value(), kTwoRankRingText);
  EXPECT_EQ(write_xml(make_two_rank_ring(), XmlDialect::Msccl).value(), kTwoRankRingMscclText);
}

TEST(XmlWriter, WritesFoldsDependencesAndEmptyElementsByteForByte) {
  Program program = make_fan_in();
  program.name = "a<b>&\"";
  program.ranks.resize(2);
  program.ranks[0].lanes.push_back({1, -1, 0, {}});
  program.ranks[0].lanes[0].steps[0] = {Opcode::Fold,
                                        {{0, Buffer::Scratch, 0, 1}, {0, Buffer::Input, 1, 1}},
                                        {{0, Buffer::Output, 0, 1}, {0, Buffer::Output, 1, 1}},
                                        {{1, 1}, {2, 0}}};
  EXPECT_EQ(write_xml(program, XmlDialect::Mccl).value(),
            R"(<program name="a&lt;b&gt;&amp;&quot;" collective="all_reduce" ranks="2" chunks="2")"
            R"( in_place="false" out_of_place="true">
  <rank id="0" scratch_chunks="4">
    <lane id="0" send="-1" recv="-1" channel="0">
      <step id="0" op="fold" src="s:0 i:1" dst="o:0 o:1" depends="1:1 2:0"/>
      <step id="1" op="copy" src="s:2*2" dst="o:0*2"/>
    </lane>
    <lane id="1" send="-1" recv="-1" channel="3">
      <step id="0" op="copy" src="i:0*2" dst="s:2*2"/>
      <step id="1" op="copy" src="i:0*2" dst="o:0*2" depends="2:0"/>
    </lane>
    <lane id="2" send="-1" recv="-1" channel="0">
      <step id="0" op="copy" src="i:0*2" dst="s:2*2" depends="0:1 1:0"/>
    </lane>
    <lane id="3" send="1" recv="-1" channel="0"/>
  </rank>
  <rank id="1" scratch_chunks="0"/>
</program>
)");
}

TEST(XmlWriter, MscclNopsCarryAllDependencesButTheFirstAndCountAsSteps) {
  EXPECT_EQ(write_xml(make_fan_in(), XmlDialect::Msccl).value(),
            R"(<algo name="fan_in" proto="Simple" nchannels="4" nchunksperloop="2" ngpus="1")"
            R"( coll="allreduce" inplace="0" outofplace="1" minBytes="0" maxBytes="0">
  <gpu id="0" i_chunks="2" o_chunks="2" s_chunks="4">
    <tb id="0" send="-1" recv="-1" chan="0">
      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0")"
            R"( depid="1" deps="1" hasdep="0"/>
      <step s="1" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0")"
            R"( depid="2" deps="1" hasdep="0"/>
      <step s="2" type="re" srcbuf="s" srcoff="2" dstbuf="o" dstoff="0" cnt="2")"
            R"( depid="1" deps="0" hasdep="0"/>
      <step s="3" type="cpy" srcbuf="s" srcoff="2" dstbuf="o" dstoff="0" cnt="2")"
            R"( depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="-1" recv="-1" chan="3">
      <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="2" cnt="2")"
            R"( depid="-1" deps="-1" hasdep="1"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="2")"
            R"( depid="2" deps="1" hasdep="1"/>
    </tb>
    <tb id="2" send="-1" recv="-1" chan="0">
      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0")"
            R"( depid="1" deps="0" hasdep="0"/>
      <step s="1" type="cpy" srcbuf="i" srcoff="0" dstbuf="s" dstoff="2" cnt="2")"
            R"( depid="0" deps="3" hasdep="1"/>
    </tb>
  </gpu>
</algo>
)");
}

TEST(XmlWriter, MscclSizesOfAnAllGatherCoverTheWholeOutput) {
  Program program;
  program.name = "gather";
  program.collective = Collective::AllGather;
  program.chunk_count = 3;
  program.ranks.resize(2);
  EXPECT_EQ(
      write_xml(program, XmlDialect::Msccl).value(),
      R"(<algo name="gather" proto="Simple" nchannels="1" nchunksperloop="6" ngpus="2")"
      R"( coll="allgather" inplace="1" outofplace="1" minBytes="0" maxBytes="9223372036854775807">
  <gpu id="0" i_chunks="3" o_chunks="6" s_chunks="0"/>
  <gpu id="1" i_chunks="3" o_chunks="6" s_chunks="0"/>
</algo>
)");
}

TEST(XmlWriter, MscclRefusesFoldByName) {
  Program program = make_fan_in();
  program.ranks[0].lanes[1].steps[1].opcode = Opcode::Fold;
  EXPECT_EQ(error(program, XmlDialect::Msccl),
            "unsupported: rank 0 lane 1 step 1: MSCCL has no instruction fold");
  EXPECT_EQ(error(program, XmlDialect::Mccl), "ok");
}

TEST(XmlWriter, MscclRefusesWhatItsLoadersCannotStore) {
  Program program = make_two_rank_ring();
  program.ranks[1].lanes[0].channel = 32;
  EXPECT_EQ(error(program, XmlDialect::Msccl),
            "unsupported: rank 1 lane 0: channel 32; MSCCL's channels are at most 31");

  program = make_two_rank_ring();
  program.chunk_count = 72;
  program.ranks[0].lanes[0].steps[0].sources[0] = {0, Buffer::Input, 1, 71};
  EXPECT_EQ(error(program, XmlDialect::Msccl), "ok");
  program.ranks[0].lanes[0].steps[0].sources[0] = {0, Buffer::Input, 0, 72};
  EXPECT_EQ(error(program, XmlDialect::Msccl),
            "unsupported: rank 0 lane 0 step 0: a span of 72 chunks; MSCCL's cnt is at most 71");

  program.chunk_count = 32769;
  program.ranks[0].lanes[0].steps[0].sources[0] = {0, Buffer::Input, 32768, 1};
  EXPECT_EQ(
      error(program, XmlDialect::Msccl),
      "unsupported: rank 0 lane 0 step 0: chunk index 32768; MSCCL's offsets are at most 32767");

  program = make_two_rank_ring();
  program.ranks[0].lanes.resize(129);
  program.ranks[0].lanes[128].steps.push_back(
      {Opcode::Copy, {{0, Buffer::Input, 0, 1}}, {{0, Buffer::Output, 0, 1}}, {}});
  program.ranks[0].lanes[0].steps[2].dependences = {{128, 0}};
  EXPECT_EQ(
      error(program, XmlDialect::Msccl),
      "unsupported: rank 0 lane 0 step 2: a dependence on lane 128; MSCCL's depid is at most 127");

  program = make_two_rank_ring();
  program.name = "a&b";
  EXPECT_EQ(error(program, XmlDialect::Msccl),
            "unsupported: the name has one of & < > \" ', which MSCCL's loaders cannot read");
}

TEST(XmlWriter, NamesTheFirstBrokenRuleOfAProgram) {
  const auto error_of = [](auto change) {
    Program program = make_fan_in();
    change(&program);
    return error(program, XmlDialect::Mccl);
  };
  EXPECT_EQ(error_of([](Program* program) { program->ranks.clear(); }),
            "invalid argument: rank count 0 is outside 1..4096");
  EXPECT_EQ(error_of([](Program* program) { program->name = "a\nb"; }),
            "invalid argument: the name has bytes that are not printable ASCII");
  EXPECT_EQ(error_of([](Program* program) { program->name = std::string(256, 'a'); }),
            "invalid argument: the name has 256 bytes, more than 255");
  EXPECT_EQ(error_of([](Program* program) { program->chunk_count = 0; }),
            "invalid argument: chunk count 0 is outside 1..1048576");
  EXPECT_EQ(error_of([](Program* program) { program->out_of_place = false; }),
            "invalid argument: the program serves neither in-place nor out-of-place calls");
  EXPECT_EQ(error_of([](Program* program) {
              program->collective = Collective::AllGather;
              program->chunk_count = kXmlChunksMax / 2 + 1;
              program->ranks.resize(2);
            }),
            "invalid argument: the output of each rank has 1048578 chunks, more than 1048576");
  EXPECT_EQ(error_of([](Program* program) { program->ranks[0].scratch_chunk_count = -1; }),
            "invalid argument: rank 0: scratch chunk count -1 is outside 0..1048576");
  EXPECT_EQ(error_of([](Program* program) { program->ranks[0].lanes[2].send_peer = 1; }),
            "invalid argument: rank 0 lane 2: send peer 1 is outside -1..0");
  EXPECT_EQ(error_of([](Program* program) { program->ranks[0].lanes[2].recv_peer = 0; }),
            "invalid argument: rank 0 lane 2: recv peer 0 is the rank itself");
  EXPECT_EQ(error_of([](Program* program) { program->ranks[0].lanes[2].channel = 1024; }),
            "invalid argument: rank 0 lane 2: channel 1024 is outside 0..1023");
}

TEST(XmlWriter, NamesTheFirstBrokenRuleOfAStep) {
  const auto error_of = [](auto change) {
    Program program = make_fan_in();
    change(&program.ranks[0].lanes[0].steps[0]);
    return error(program, XmlDialect::Mccl);
  };
  const std::string prefix = "invalid argument: rank 0 lane 0 step 0: ";
  EXPECT_EQ(error_of([](Step* step) {
              *step = {Opcode::Send, step->sources, {}, {}};
            }),
            prefix + "send sends, but its lane has no send peer");
  EXPECT_EQ(error_of([](Step* step) {
              *step = {Opcode::Recv, {}, step->destinations, {}};
            }),
            prefix + "recv receives, but its lane has no recv peer");
  EXPECT_EQ(error_of([](Step* step) { step->sources.clear(); }),
            prefix + "reduce has 0 sources, not 1");
  EXPECT_EQ(error_of([](Step* step) {
              step->opcode = Opcode::Fold;
              step->destinations.clear();
            }),
            prefix + "fold has 0 destinations, not one or more");
  EXPECT_EQ(error_of([](Step* step) { step->sources[0].rank = 1; }),
            prefix + "scratch of rank 1: a program cannot name another rank's memory");
  EXPECT_EQ(error_of([](Step* step) { step->sources[0].index = -1; }),
            prefix + "a span of 2 chunks at index -1");
  EXPECT_EQ(error_of([](Step* step) { step->sources[0].count = 0; }),
            prefix + "a span of 0 chunks at index 2");
  EXPECT_EQ(error_of([](Step* step) { step->destinations[0].index = 2147483647; }),
            prefix + "chunk 2147483648 is past the end of output, which has 2 chunks");
  EXPECT_EQ(error_of([](Step* step) { step->destinations[0].count = 1; }),
            prefix + "spans of 2 and 1 chunks in one step");
  EXPECT_EQ(error_of([](Step* step) {
              step->dependences = {{0, 1}};
            }),
            prefix + "dependence 0:1 is on the step's own lane");
  EXPECT_EQ(error_of([](Step* step) {
              step->dependences = {{3, 0}};
            }),
            prefix + "dependence 3:0 names no lane: the rank has 3");
  EXPECT_EQ(error_of([](Step* step) {
              step->dependences = {{2, 1}};
            }),
            prefix + "dependence 2:1 names no step: the lane has 1");
  EXPECT_EQ(error_of([](Step* step) {
              step->dependences = {{2, 0}, {1, 0}};
            }),
            prefix + "dependence 1:0 is not in ascending order");
  EXPECT_EQ(error_of([](Step* step) {
              step->dependences = {{2, 0}, {2, 0}};
            }),
            prefix + "dependence 2:0 is listed twice");
}

}  // namespace
}  // namespace mccl
