#include <gtest/gtest.h>

#include "ir/xml.h"
#include "xml_programs.h"

namespace mccl {
namespace {

std::string faults(const std::string& text) {
  return read_xml(text).to_string("f");
}

std::string step(const std::string& number_and_type, const std::string& src, const std::string& dst,
                 const std::string& rest) {
  return "      <step " + number_and_type + " " + src + " " + dst + " " + rest + "/>\n";
}

// One gpu with `body`, on lines 3 and up, of an all-reduce of four chunks.
std::string one_gpu(const std::string& body) {
  return "<algo name='x' proto='LL' nchannels='2' nchunksperloop='4' ngpus='1' coll='allreduce'"
         " inplace='1'>\n  <gpu id='0' i_chunks='4' o_chunks='0' s_chunks='2'>\n" +
         body + "  </gpu>\n</algo>\n";
}

const std::string kTb0 = "    <tb id='0' send='-1' recv='-1' chan='0'>\n";
const std::string kTb1 = "    <tb id='1' send='-1' recv='-1' chan='1'>\n";
const std::string kTbEnd = "    </tb>\n";
const std::string kNopSlots = "srcbuf='i' srcoff='-1' dstbuf='o' dstoff='-1' cnt='0'";
const std::string kCopySlots = "srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='1'";
const std::string kNoDependence = "depid='-1' deps='-1'";

std::string nop(int number, const std::string& dependence, int has_dependents = 0) {
  return step("s='" + std::to_string(number) + "' type='nop'", kNopSlots, dependence,
              "hasdep='" + std::to_string(has_dependents) + "'");
}
std::string copy(int number, const std::string& dependence, int has_dependents) {
  return step("s='" + std::to_string(number) + "' type='cpy'", kCopySlots, dependence,
              "hasdep='" + std::to_string(has_dependents) + "'");
}

TEST(XmlMscclReader, NopsVanishAndGiveTheirDependencesToTheStepThatFollows) {
  const XmlReadResult read = read_xml(
      one_gpu(kTb0 + copy(0, kNoDependence, 1) + nop(1, "depid='1' deps='2'") +
              nop(2, "depid='1' deps='3'") + nop(3, "depid='1' deps='2'") +
              copy(4, "depid='1' deps='0'", 1) + kTbEnd + kTb1 + copy(0, kNoDependence, 1) +
              nop(1, "depid='0' deps='0'") + copy(2, "depid='0' deps='4'", 1) +
              copy(3, kNoDependence, 1) + nop(4, "depid='0' deps='0'") + kTbEnd));
  ASSERT_EQ(read.to_string("f"), "");
  const std::vector<Lane>& lanes = read.program.ranks[0].lanes;
  ASSERT_EQ(lanes[0].steps.size(), 2u);
  EXPECT_EQ(lanes[0].steps[1].dependences, (std::vector<StepRef>{{1, 0}, {1, 1}, {1, 2}}));
  ASSERT_EQ(lanes[1].steps.size(), 3u);
  EXPECT_EQ(lanes[1].steps[1].dependences, (std::vector<StepRef>{{0, 0}, {0, 1}}));
  EXPECT_EQ(lanes[1].steps[2].dependences, std::vector<StepRef>());
}

TEST(XmlMscclReader, ADependenceOnANopMeansTheStepThatCarriesIt) {
  const XmlReadResult read = read_xml(
      one_gpu(kTb0 + copy(0, "depid='1' deps='1'", 0) + kTbEnd + kTb1 + copy(0, kNoDependence, 0) +
              nop(1, kNoDependence) + nop(2, kNoDependence) + copy(3, kNoDependence, 1) + kTbEnd));
  ASSERT_EQ(read.to_string("f"), "");
  EXPECT_EQ(read.program.ranks[0].lanes[0].steps[0].dependences, (std::vector<StepRef>{{1, 1}}));
}

TEST(XmlMscclReader, ADependenceOnAnEarlierStepOfTheOwnTbVanishes) {
  const XmlReadResult read = read_xml(
      one_gpu(kTb0 + copy(0, kNoDependence, 1) + copy(1, "depid='0' deps='0'", 0) + kTbEnd));
  ASSERT_EQ(read.to_string("f"), "");
  EXPECT_EQ(read.program.ranks[0].lanes[0].steps[1].dependences, std::vector<StepRef>());
}

TEST(XmlMscclReader, FaultsDependencesThatCannotBeServed) {
  EXPECT_EQ(
      faults(one_gpu(kTb0 + copy(0, "depid='1' deps='0'", 0) + copy(1, "depid='2' deps='0'", 0) +
                     copy(2, "depid='1' deps='2'", 0) + nop(3, "depid='0' deps='4'", 1) +
                     copy(4, "depid='1' deps='1'", 1) + copy(5, "depid='1' deps='-1'", 2) +
                     nop(6, "depid='9' deps='0'") + kTbEnd + kTb1 + copy(0, kNoDependence, 0) +
                     nop(1, "depid='0' deps='6'") + kTbEnd)),
      "f:4:92: deps=\"0\" names a step whose hasdep is 0: the wait never ends\n"
      "f:5:82: depid=\"2\" names no tb: the gpu has 2\n"
      "f:6:92: deps=\"2\" names no step: the tb has 2\n"
      "f:7:94: deps=\"4\" of the own tb is not before this step: the wait never ends\n"
      "f:8:92: deps=\"1\" names a nop that no step follows\n"
      "f:9:92: depid=\"1\" and deps=\"-1\": only one of them says that there is no dependence\n"
      "f:9:102: hasdep=\"2\" is outside 0..1\n"
      "f:10:84: depid=\"9\" names no tb: the gpu has 2\n"
      "f:14:94: deps=\"6\" names a nop that no step follows");
}

TEST(XmlMscclReader, ADuplicateTbIdCondemnsNoDependence) {
  EXPECT_EQ(faults(one_gpu(kTb0 + copy(0, "depid='1' deps='0'", 0) + kTbEnd + kTb0 +
                           copy(0, kNoDependence, 0) + kTbEnd)),
            "f:6:9: a second <tb> with id 0");
}

TEST(XmlMscclReader, TheLocalOperandOfReceiveReducesIsTheSource) {
  const XmlReadResult read = read_xml(
      "<algo name='x' proto='LL128' nchannels='1' nchunksperloop='2' ngpus='2' coll='broadcast'"
      " inplace='0' outofplace='1' minBytes='1' maxBytes='0' unknown='x'>\n<other/>"
      "<gpu id='1' i_chunks='0' o_chunks='2' s_chunks='0'/>"
      "<gpu id='0' i_chunks='2' o_chunks='1' s_chunks='3'>"
      "<tb id='0' send='1' recv='1' chan='0'>" +
      step("s='0' type='rrs'", "srcbuf='s' srcoff='2'", "dstbuf='o' dstoff='99' cnt='1'",
           "depid='-1' deps='-1' hasdep='0'") +
      step("s='1' type='rrc'", "srcbuf='i' srcoff='0'", "dstbuf='s' dstoff='1' cnt='2'",
           "depid='-1' deps='-1' hasdep='1'") +
      step("s='2' type='rcs'", "srcbuf='o' srcoff='99'", "dstbuf='o' dstoff='1' cnt='1'",
           "depid='-1' deps='-1' hasdep='0'") +
      "</tb></gpu></algo>");
  ASSERT_EQ(read.to_string("f"), "");
  Program expected;
  expected.name = "x";
  expected.collective = Collective::Broadcast;
  expected.chunk_count = 2;
  expected.in_place = false;
  Lane lane{1, 1, 0, {}};
  lane.steps.push_back({Opcode::RecvReduceSend, {{0, Buffer::Scratch, 2, 1}}, {}, {}});
  lane.steps.push_back(
      {Opcode::RecvReduceCopy, {{0, Buffer::Input, 0, 2}}, {{0, Buffer::Scratch, 1, 2}}, {}});
  lane.steps.push_back({Opcode::RecvCopySend, {}, {{0, Buffer::Output, 1, 1}}, {}});
  expected.ranks = {{3, {lane}}, {0, {}}};
  EXPECT_EQ(read.program, expected);
}

TEST(XmlMscclReader, WithoutOutOfPlaceAProgramServesWhatInPlaceSays) {
  const auto claims = [](const std::string& attributes) {
    const XmlReadResult read = read_xml(
        "<algo name='x' proto='LL' nchannels='2' nchunksperloop='4' ngpus='1'"
        " coll='allreduce' " +
        attributes + "><gpu id='0' i_chunks='0' o_chunks='0' s_chunks='0'/></algo>");
    EXPECT_EQ(read.to_string("f"), "");
    return std::make_pair(read.program.in_place, read.program.out_of_place);
  };
  EXPECT_EQ(claims("inplace='1'"), std::make_pair(true, false));
  EXPECT_EQ(claims("inplace='0'"), std::make_pair(false, true));
  EXPECT_EQ(claims("inplace='1' outofplace='0'"), std::make_pair(true, false));
  EXPECT_EQ(claims("inplace='1' outofplace='1'"), std::make_pair(true, true));
}

TEST(XmlMscclReader, ChunksOfAnAllGatherAreThoseOfOneBlock) {
  const auto text = [](int chunk_count) {
    return "<algo name='x' proto='LL' nchannels='1' ngpus='2' coll='allgather' inplace='1'\n"
           "nchunksperloop='" +
           std::to_string(chunk_count) +
           "'>\n<gpu id='0' i_chunks='3' o_chunks='6' s_chunks='0'/>\n"
           "<gpu id='1' i_chunks='4' o_chunks='7' s_chunks='0'/>\n</algo>";
  };
  EXPECT_EQ(faults(text(6)),
            "f:4:13: i_chunks=\"4\", but the input has 3 chunks\n"
            "f:4:26: o_chunks=\"7\", but the output has 6 chunks");
  EXPECT_EQ(read_xml(text(8)).program.chunk_count, 4);
  EXPECT_EQ(faults(text(7)),
            "f:2:1: nchunksperloop=\"7\" of allgather does not divide by its 2 gpus");
}

TEST(XmlMscclReader, ChunksOfAReduceScatterOfEitherSpellingAreThoseOfTheInput) {
  for (const char* spelling : {"reduce_scatter", "reducescatter"}) {
    const auto text = [&](int chunk_count) {
      return "<algo name='x' proto='LL' nchannels='1' ngpus='2' coll='" + std::string(spelling) +
             "' inplace='1'\nnchunksperloop='" + std::to_string(chunk_count) +
             "'>\n<gpu id='0' i_chunks='6' o_chunks='3' s_chunks='0'/>\n"
             "<gpu id='1' i_chunks='7' o_chunks='4' s_chunks='0'/>\n</algo>";
    };
    EXPECT_EQ(faults(text(6)),
              "f:4:13: i_chunks=\"7\", but the input has 6 chunks\n"
              "f:4:26: o_chunks=\"4\", but the output has 3 chunks");
    const Program program = read_xml(text(8)).program;
    EXPECT_EQ(program.chunk_count, 4);
    EXPECT_EQ(program.collective, Collective::ReduceScatter);
    EXPECT_EQ(faults(text(7)),
              "f:2:1: nchunksperloop=\"7\" of reduce_scatter does not divide by its 2 gpus");
  }
}

TEST(XmlMscclReader, BuffersThatOnlyTheRootHasAreEmptyElsewhere) {
  EXPECT_EQ(faults("<algo name='x' proto='LL' nchannels='1' ngpus='2' coll='gather' inplace='1'\n"
                   "nchunksperloop='4'>\n<gpu id='0' i_chunks='2' o_chunks='4' s_chunks='0'/>\n"
                   "<gpu id='1' i_chunks='2' o_chunks='1' s_chunks='0'/>\n</algo>"),
            "f:4:26: o_chunks=\"1\", but the output has 0 chunks");
}

TEST(XmlMscclReader, FaultsInTheHeaderNameWhatIsSupported) {
  EXPECT_EQ(
      faults("<algo proto='ll' nchannels='0' nchunksperloop='9999999' ngpus='2'\n"
             "coll='alltoone' inplace='2' outofplace='x' minBytes='-1' maxBytes='1k'>\n"
             "<gpu id='0' i_chunks='0' o_chunks='0'/>\n</algo>"),
      "f:1:1: <algo> lacks the attribute name\n"
      "f:1:7: proto=\"ll\" is not a protocol; there are Simple, LL and LL128\n"
      "f:1:18: nchannels=\"0\" is outside 1..1024\n"
      "f:1:32: nchunksperloop=\"9999999\" is outside 1..1048576\n"
      "f:1:57: ngpus=\"2\", but there are 1 elements <gpu>\n"
      "f:2:1: coll=\"alltoone\" is not supported; supported: allreduce, allgather, broadcast, "
      "reduce_scatter, reduce, gather, scatter, alltoall, custom\n"
      "f:2:17: inplace=\"2\" is outside 0..1\n"
      "f:2:29: outofplace=\"x\" is not a decimal number\n"
      "f:2:44: minBytes=\"-1\" is outside 0..9223372036854775807\n"
      "f:2:58: maxBytes=\"1k\" is not a decimal number\n"
      "f:3:1: <gpu> lacks the attribute s_chunks");
}

TEST(XmlMscclReader, FaultsInStepsAreAllReported) {
  EXPECT_EQ(
      faults(one_gpu("    <tb id='0' send='0' recv='-1' chan='2'>\n" +
                     step("s='0' type='ra'", kCopySlots, kNoDependence, "hasdep='0'") +
                     step("s='1' type='xyz'", kCopySlots, kNoDependence, "hasdep='0'") +
                     step("s='1' type='r'", kCopySlots, kNoDependence, "hasdep='0'") +
                     step("s='3' type='cpy'", "srcbuf='i' srcoff='3'",
                          "dstbuf='s' dstoff='1' cnt='2'", kNoDependence + " hasdep='0'") +
                     step("s='4' type='re'", "srcbuf='x' srcoff='-1'", "dstbuf='o' dstoff='0'",
                          kNoDependence + " cnt='0'") +
                     "      text\n" + kTbEnd)),
      "f:3:16: send peer 0 is the rank itself\n"
      "f:3:35: chan=\"2\", but nchannels is 2\n"
      "f:4:19: type=\"ra\" is accepted by some loaders, but no runtime executes it\n"
      "f:5:19: type=\"xyz\" is not an instruction; there are nop s r rcs rrs rrc rrcs cpy re\n"
      "f:6:13: s=\"1\", but <step> number 2 is due here\n"
      "f:6:19: recv receives, but its lane has no recv peer\n"
      "f:7:41: chunk 4 is past the end of input, which has 4 chunks\n"
      "f:7:63: chunk 2 is past the end of scratch, which has 2 chunks\n"
      "f:8:7: <step> lacks the attribute hasdep\n"
      "f:8:29: srcbuf=\"x\" is not one of i, o and s\n"
      "f:8:40: srcoff=\"-1\" is outside 0..1048575\n"
      "f:8:95: cnt=\"0\" is outside 1..1048576\n"
      "f:9:7: text in <tb>");
}

}  // namespace
}  // namespace mccl
