#include <gtest/gtest.h>

#include "ir/xml.h"
#include "xml_programs.h"

namespace mccl {
namespace {

// `text` with its first `from` replaced.
std::string replaced(std::string_view text, const std::string& from, const std::string& to) {
  std::string result(text);
  const size_t position = result.find(from);
  EXPECT_NE(position, std::string::npos) << from;
  return result.replace(position, from.size(), to);
}

std::string faults(const std::string& text) {
  return read_xml(text).to_string("f");
}

TEST(XmlReader, ReadsTheTwoRankRingInBothDialects) {
  const XmlReadResult ours = read_xml(kTwoRankRingText);
  EXPECT_EQ(ours.to_string("f"), "");
  EXPECT_EQ(ours.dialect, XmlDialect::Mccl);
  EXPECT_EQ(ours.program, make_two_rank_ring());
  const XmlReadResult theirs = read_xml(kTwoRankRingMscclText);
  EXPECT_EQ(theirs.to_string("f"), "");
  EXPECT_EQ(theirs.dialect, XmlDialect::Msccl);
  EXPECT_EQ(theirs.program, make_two_rank_ring());
}

TEST(XmlReader, AcceptsWhatIsNotCanonicalAndWritesItCanonically) {
  const XmlReadResult read = read_xml(
      "<?xml version='1.0'?>\n<!-- a comment -->\n"
      "<program out_of_place='false' in_place='true' chunks='2' ranks='1'\n"
      "  collective='all_reduce' name='&#97;'><rank scratch_chunks='0' id='0'>\n"
      "<lane channel='0' recv='-1' send='-1' id='1'><step id='0' op='copy' src='i:0*1' dst='o:0'/>"
      "<step id='1' op='copy' src='i:1' dst='o:1'></step></lane>\n"
      "<lane id='0' send='-1' recv='-1' channel='0'>"
      "<step id='0' op='fold' src=' i:0  i:1 ' dst='o:0' depends='1:1  1:0'/></lane>"
      "</rank></program>");
  ASSERT_EQ(read.to_string("f"), "");
  EXPECT_EQ(write_xml(read.program, XmlDialect::Mccl).value(),
            R"(<program name="a" collective="all_reduce" ranks="1" chunks="2")"
            R"( in_place="true" out_of_place="false">
  <rank id="0" scratch_chunks="0">
    <lane id="0" send="-1" recv="-1" channel="0">
      <step id="0" op="fold" src="i:0 i:1" dst="o:0" depends="1:0 1:1"/>
    </lane>
    <lane id="1" send="-1" recv="-1" channel="0">
      <step id="0" op="copy" src="i:0" dst="o:0"/>
      <step id="1" op="copy" src="i:1" dst="o:1"/>
    </lane>
  </rank>
</program>
)");
}

TEST(XmlReader, ReportsAllFaultsOfADocumentInOrder) {
  EXPECT_EQ(faults(R"(<program name="x" collective="all_reduce" ranks="2" chunks="2"
         in_place="yes" out_of_place="true" chunks="3">
  <rank id="0" scratch_chunks="1">
    <lane id="0" send="0" recv="2" channel="1024">
      <step id="0" op="send" src="i:1*2"/>
      <step id="2" op="recv_all" dst="o:0"/>
      <step id="2" op="copy" src="s:0" dst="o"/>
      <step op="copy" src="i:0*2" dst="s:0"/>
    </lane>
    words
    <lane id="1" send="-1" recv="-1">
      <step id="0" op="recv" dst="o:0" depends="0:4 0:3 0:3 1:0 2:0 x"/>
      <loop/>
      <step id="1" op="reduce" src="i:0 i:1" to="o:0"/>
    </lane>
  </rank>
  <rank id="1" scratch_chunks="99999999999999999999">
    <lane id="0" send="-1" recv="-1" channel="0">
      <step id="0" op="copy" src="i:0" dst="s:9"/>
    </lane>
  </rank>
</program>
)"),
            R"(f:2:10: in_place="yes" is neither true nor false
f:2:45: chunks="3" is given twice
f:4:18: send peer 0 is the rank itself
f:4:27: recv peer 2 is outside -1..1
f:4:36: channel="1024" is outside 0..1023
f:5:30: chunk 2 is past the end of input, which has 2 chunks
f:6:13: id="2", but <step> number 1 is due here
f:6:20: op="recv_all" is not an instruction; there are send recv recv_copy_send)"
            R"( recv_reduce_send recv_reduce_copy recv_reduce_copy_send copy reduce fold
f:7:40: dst="o" is not a span; one is i:3 or o:0*2 (buffer i, o or s, index, count)
f:8:7: <step> lacks the attribute id
f:8:35: spans of 2 and 1 chunks in one step
f:10:5: text in <rank>
f:11:5: <lane> lacks the attribute channel
f:12:40: depends="x" is not a dependence; one is 1:0 (lane, step)
f:12:40: dependence 0:3 is listed twice
f:12:40: dependence 0:4 names no step: the lane has 4
f:12:40: dependence 1:0 is on the step's own lane
f:12:40: dependence 2:0 names no lane: the rank has 2
f:13:7: <loop> does not belong into <lane>
f:14:7: reduce has 0 destinations, not 1
f:14:32: reduce has 2 sources, not 1
f:14:46: <step> has no attribute to="o:0"
f:17:16: scratch_chunks="99999999999999999999" is outside 0..1048576)");
}

TEST(XmlReader, OneSlipInTheHeaderCondemnsNothingElse) {
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "ranks=\"2\"", "ranks=\"3\"")),
            "f:1:57: ranks=\"3\", but there are 2 elements <rank>");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "ranks=\"2\"", "ranks=\"1\"")),
            "f:1:57: ranks=\"1\", but there are 2 elements <rank>");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "chunks=\"2\"", "chunks=\"0\"")),
            "f:1:67: chunks=\"0\" is outside 1..1048576");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "all_reduce\"", "all_to_one\"")),
            "f:1:33: collective=\"all_to_one\" is not supported; supported: all_reduce, "
            "all_gather, broadcast, reduce_scatter, reduce, gather, scatter, all_to_all, "
            "custom");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "<rank id=\"1\"", "<rank id=\"0\"")),
            "f:9:9: a second <rank> with id 0");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "<lane id=\"0\"", "<lane id=\"1\"")),
            "f:3:11: id=\"1\" is outside 0..0");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "send=\"1\"", "send=\"01\"")),
            "f:3:18: send=\"01\" is not a decimal number");
}

TEST(XmlReader, FaultyNumberingCondemnsNoPeerAndNoDependence) {
  const std::string far_peer = replaced(kTwoRankRingText, "send=\"1\"", "send=\"2\"");
  EXPECT_EQ(faults(far_peer), "f:3:18: send peer 2 is outside -1..1");
  EXPECT_EQ(faults(replaced(far_peer, "ranks=\"2\"", "ranks=\"3\"")),
            "f:1:57: ranks=\"3\", but there are 2 elements <rank>");
  const std::string waiting =
      replaced(kTwoRankRingText, "src=\"i:0\"", "src=\"i:0\" depends=\"1:0\"");
  EXPECT_EQ(faults(waiting), "f:4:40: dependence 1:0 names no lane: the rank has 1");
  EXPECT_EQ(faults(replaced(waiting, "<lane id=\"0\"", "<lane id=\"1\"")),
            "f:3:11: id=\"1\" is outside 0..0");
}

TEST(XmlReader, NumbersArePlainDecimals) {
  for (const std::string bad : {"", "x", "-", "-0", "+1", " 1", "1 ", "0x1", "1.0", "1e0"})
    EXPECT_EQ(faults(replaced(kTwoRankRingText, "send=\"1\"", "send=\"" + bad + "\"")),
              "f:3:18: send=\"" + bad + "\" is not a decimal number");
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "send=\"1\"", "send=\"-9223372036854775809\"")),
            "f:3:18: send=\"-9223372036854775809\" is outside -1..4095");
  // Would be 1 in 64 bits.
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "send=\"1\"", "send=\"18446744073709551617\"")),
            "f:3:18: send=\"18446744073709551617\" is outside -1..4095");
}

TEST(XmlReader, MalformedXmlIsOneFaultWithItsPlace) {
  EXPECT_EQ(faults(""), "f:1:1: malformed XML: there is no element");
  EXPECT_EQ(faults("<!-- -->\n"), "f:1:1: malformed XML: there is no element");
  EXPECT_EQ(faults("<program>\n  <rank>\n  </lane>\n</program>"),
            "f:3:5: malformed XML: start and end tags do not match");
  EXPECT_EQ(faults("<program\n name=x>"),
            "f:2:7: malformed XML: an attribute is not of the form name=\"value\"");
  EXPECT_EQ(faults("<program>\n<\n</program>"), "f:2:2: malformed XML: this is not a tag");
  EXPECT_EQ(faults(std::string("<program>\n\0</program>", 21)),
            "f:2:1: malformed XML: a zero byte");
}

TEST(XmlReader, RefusesWhatIsNotAProgram) {
  EXPECT_EQ(faults("\n <html/>"),
            "f:2:2: the root element is neither <program> (ours) nor <algo> (MSCCL's)");
  EXPECT_EQ(faults("<!DOCTYPE x>\n" + std::string(kTwoRankRingText)).substr(0, 60),
            "f:1:11: a document type is not part of a program");
  EXPECT_EQ(faults(std::string(kTwoRankRingText) + "<more/> text"),
            "f:17:1: a second root element <more>\nf:17:9: text outside of the root element");
}

TEST(XmlReader, MessagesShortenAndCleanWhatTheyQuote) {
  EXPECT_EQ(faults(replaced(kTwoRankRingText, "send=\"1\"",
                            "send=\"\x1b\xff" + std::string(99, '7') + "\"")),
            "f:3:18: send=\"??" + std::string(38, '7') + "...\" is not a decimal number");
}

TEST(XmlReader, StopsReadingAtTheLimitOfFaults) {
  std::string text = "<program>\n";
  for (size_t rank = 0; rank < kXmlFaultsMax; ++rank) text += "<lane/>\n";
  text += "</program>";
  const XmlReadResult read = read_xml(text);
  ASSERT_EQ(read.faults.size(), kXmlFaultsMax + 1);
  EXPECT_EQ(read.faults.back().text, "reading stopped after 10000 faults");
}

TEST(XmlReader, StopsAtTheLimitsOfElementsAndAttributes) {
  std::string ranks =
      "<program name='' collective='broadcast' ranks='4096' chunks='1'\n"
      " in_place='true' out_of_place='true'>\n";
  for (int rank = 0; rank <= kXmlRanksMax; ++rank)
    ranks += "<rank id='" + std::to_string(rank) + "' scratch_chunks='0'/>\n";
  EXPECT_EQ(faults(ranks + "</program>"), "f:4099:1: more than 4096 elements <rank>");

  std::string attributes;
  for (int attribute = 0; attribute < 40; ++attribute)
    attributes += "\na" + std::to_string(attribute) + "='1'";
  EXPECT_EQ(faults(replaced(kTwoRankRingMscclText, "<gpu ", "<gpu" + attributes + " ")),
            "f:35:1: more than 32 attributes");
}

TEST(XmlReader, RefusesATextThatIsTooLongUnread) {
  EXPECT_EQ(faults(std::string(kXmlBytesMax + 1, '<')),
            "f:1:1: the text has 268435457 bytes, more than 268435456");
}

TEST(XmlReader, BoundsTheChunksOfAllBlocksTogether) {
  EXPECT_EQ(faults("<program name='' collective='all_gather' ranks='2' chunks='524289'\n"
                   " in_place='true' out_of_place='true'>\n<rank id='0' scratch_chunks='0'/>\n"
                   "<rank id='1' scratch_chunks='0'/>\n</program>"),
            "f:1:52: the output of each rank has 1048578 chunks, more than 1048576");
}

}  // namespace
}  // namespace mccl
