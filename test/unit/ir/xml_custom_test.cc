// Custom collectives as text: the contract in both dialects, and what is wrong with one.
#include <gtest/gtest.h>

#include "ir/xml.h"

namespace mccl {
namespace {

// Rank 0 promises nothing about its chunk, rank 1 gets a copy and a sum.
Program make_custom() {
  Program program;
  program.name = "pair";
  program.collective = Collective::Custom;
  program.in_place = false;
  program.contract = {{2, {{}}}, {1, {{{0, 1}}, {{0, 0}, {1, 0}}}}};
  program.ranks.resize(2);
  program.ranks[0].lanes = {{1, -1, 0, {{Opcode::Send, {{0, Buffer::Input, 0, 2}}, {}, {}}}}};
  program.ranks[1].scratch_chunk_count = 2;
  program.ranks[1].lanes = {{-1, 0, 0, {{Opcode::Recv, {}, {{1, Buffer::Scratch, 0, 2}}, {}}}}};
  return program;
}

constexpr const char* kMccl = R"(<program name="pair" collective="custom" ranks="2" chunks="1")"
                              R"( in_place="false" out_of_place="true">
  <rank id="0" input_chunks="2" outputs="-" scratch_chunks="0">
    <lane id="0" send="1" recv="-1" channel="0">
      <step id="0" op="send" src="i:0*2"/>
    </lane>
  </rank>
  <rank id="1" input_chunks="1" outputs="0:1 0:0+1:0" scratch_chunks="2">
    <lane id="0" send="-1" recv="0" channel="0">
      <step id="0" op="recv" dst="s:0*2"/>
    </lane>
  </rank>
</program>
)";

constexpr const char* kMscclGpus =
    R"(  <gpu id="0" i_chunks="2" o_chunks="1" s_chunks="0" outputs="-">
    <tb id="0" send="1" recv="-1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="-1" cnt="2")"
    R"( depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="2" outputs="0:1 0:0+1:0">
    <tb id="0" send="-1" recv="0" chan="0">
      <step s="0" type="r" srcbuf="i" srcoff="-1" dstbuf="s" dstoff="0" cnt="2")"
    R"( depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
)";

std::string faults_of(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return read_xml(text).to_string("file");
}

TEST(CustomXml, IsWrittenAndReadInOurDialect) {
  EXPECT_EQ(write_xml(make_custom(), XmlDialect::Mccl).value(), kMccl);
  const XmlReadResult read = read_xml(kMccl);
  ASSERT_TRUE(read.is_ok()) << read.to_string("file");
  EXPECT_EQ(read.program, make_custom());
}

TEST(CustomXml, IsWrittenAndReadInMscclsDialect) {
  const std::string text = write_xml(make_custom(), XmlDialect::Msccl).value();
  EXPECT_EQ(text.substr(text.find('\n') + 1), kMscclGpus);
  EXPECT_NE(text.find("nchunksperloop=\"2\""), std::string::npos);
  const XmlReadResult read = read_xml(text);
  ASSERT_TRUE(read.is_ok()) << read.to_string("file");
  EXPECT_EQ(read.program, make_custom());
}

TEST(CustomXml, WithoutOutputsPromisesNothing) {
  std::string text = write_xml(make_custom(), XmlDialect::Msccl).value();
  for (const char* outputs : {" outputs=\"-\"", " outputs=\"0:1 0:0+1:0\""})
    text.erase(text.find(outputs), std::string(outputs).size());
  const XmlReadResult read = read_xml(text);
  ASSERT_TRUE(read.is_ok()) << read.to_string("file");
  Program wanted = make_custom();
  wanted.contract = {{2, {{}}}, {1, {{}, {}}}};
  EXPECT_EQ(read.program, wanted);
}

TEST(CustomXml, FaultsOfAContractHaveTheirPlace) {
  EXPECT_EQ(faults_of(kMccl, "0:1 0:0+1:0", "0:1 0:0+"),
            "file:7:33: outputs=\"0:0+\" is not a promise; one is -, 0:1 or 0:1+1:1 (rank, input "
            "chunk)");
  EXPECT_EQ(faults_of(kMccl, "0:1 0:0+1:0", "0:2 0:0+1:0"),
            "file:7:33: promise 0:2 names no input chunk");
  EXPECT_EQ(faults_of(kMccl, "0:1 0:0+1:0", "0:1 1:0+0:0"),
            "file:7:33: promise 0:0 is not in ascending order or there twice");
  EXPECT_EQ(faults_of(kMccl, "chunks=\"1\"", "chunks=\"2\""),
            "file:1:52: a custom collective has 1 chunk per block, not 2");
  EXPECT_EQ(faults_of(kMccl, "in_place=\"false\"", "in_place=\"true\""),
            "file:1:63: a custom collective has no in-place form");
  EXPECT_EQ(faults_of(write_xml(make_custom(), XmlDialect::Msccl).value(), "o_chunks=\"2\"",
                      "o_chunks=\"3\""),
            "file:7:54: outputs promises 2 chunks, but o_chunks is 3");
}

TEST(CustomXml, OutputsBelongToCustomCollectivesAlone) {
  EXPECT_EQ(faults_of(kMccl, "\"custom\"", "\"all_reduce\"").substr(0, 47),
            "file:2:16: <rank> has no attribute input_chunks");
}

}  // namespace
}  // namespace mccl
