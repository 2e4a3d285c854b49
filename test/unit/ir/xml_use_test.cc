// For which calls a file says it is meant: windows of every dialect, protocols, and what only we
// write.
#include <gtest/gtest.h>

#include "ir/xml.h"
#include "xml_programs.h"

namespace mccl {
namespace {

constexpr int64_t kEndless = ProgramUse::kEndless;
const std::string kLargest = "9223372036854775807";

std::string ours(const std::string& attributes) {
  return "<program name='x' collective='all_reduce' ranks='1' chunks='1' in_place='true'"
         " out_of_place='true'\n" +
         attributes + "><rank id='0' scratch_chunks='0'/></program>";
}

std::string theirs(const std::string& attributes) {
  return "<algo name='x' nchannels='1' nchunksperloop='1' ngpus='1' coll='allreduce' "
         "inplace='1'\n" +
         attributes + "><gpu id='0' i_chunks='1' o_chunks='1' s_chunks='0'/></algo>";
}

ProgramUse use(const std::string& text) {
  const XmlReadResult read = read_xml(text);
  EXPECT_EQ(read.to_string("f"), "");
  return read.use;
}

std::pair<int64_t, int64_t> window(const std::string& text) {
  const ProgramUse found = use(text);
  return {found.begin_bytes, found.end_bytes};
}

std::string faults(const std::string& text) {
  return read_xml(text).to_string("f");
}

std::string microsoft(const std::string& attributes) {
  return theirs("proto='LL' " + attributes);
}
std::string rccl(const std::string& attributes) {
  return theirs("proto='LL' outofplace='0' " + attributes);
}

TEST(XmlUse, OurWindowIsTheFirstAndTheLastSize) {
  EXPECT_EQ(window(ours("")), std::make_pair(int64_t{0}, kEndless));
  EXPECT_EQ(window(ours("min_bytes='7'")), std::make_pair(int64_t{7}, kEndless));
  EXPECT_EQ(window(ours("max_bytes='7'")), std::make_pair(int64_t{0}, int64_t{8}));
  EXPECT_EQ(window(ours("min_bytes='7' max_bytes='7'")), std::make_pair(int64_t{7}, int64_t{8}));
  EXPECT_EQ(window(ours("max_bytes='" + kLargest + "'")), std::make_pair(int64_t{0}, kEndless));
}

TEST(XmlUse, MicrosoftsWindowEndsBeforeItsMaximumWhichIs128MiBWhereAbsent) {
  EXPECT_EQ(window(microsoft("")), std::make_pair(int64_t{0}, int64_t{134217728}));
  EXPECT_EQ(window(microsoft("minBytes='134217727'")),
            std::make_pair(int64_t{134217727}, int64_t{134217728}));
  EXPECT_EQ(window(microsoft("minBytes='64' maxBytes='65'")),
            std::make_pair(int64_t{64}, int64_t{65}));
  EXPECT_EQ(window(microsoft("maxBytes='" + kLargest + "'")), std::make_pair(int64_t{0}, kEndless));
}

TEST(XmlUse, AzuresAndRcclsWindowHasItsMaximumAndZeroIsNoLimit) {
  EXPECT_EQ(window(rccl("")), std::make_pair(int64_t{0}, kEndless));
  EXPECT_EQ(window(rccl("minBytes='393216' maxBytes='0'")),
            std::make_pair(int64_t{393216}, kEndless));
  EXPECT_EQ(window(rccl("minBytes='65537' maxBytes='524287'")),
            std::make_pair(int64_t{65537}, int64_t{524288}));
  EXPECT_EQ(window(rccl("minBytes='64' maxBytes='64'")), std::make_pair(int64_t{64}, int64_t{65}));
}

TEST(XmlUse, AWindowWithoutACallIsAFaultInEveryDialect) {
  EXPECT_EQ(faults(ours("min_bytes='8' max_bytes='7'")),
            "f:2:15: no call is in the window of 8 bytes to 7");
  EXPECT_EQ(faults(ours("max_bytes='0'")),
            "f:2:1: max_bytes=\"0\" is outside 1..9223372036854775807");
  EXPECT_EQ(faults(microsoft("minBytes='64' maxBytes='64'")),
            "f:2:26: no call is in the window of 64 bytes and more, below 64 (without outofplace "
            "maxBytes is the first size too many)");
  EXPECT_EQ(faults(microsoft("maxBytes='0'")),
            "f:2:12: no call is in the window of 0 bytes and more, below 0 (without outofplace "
            "maxBytes is the first size too many)");
  EXPECT_EQ(faults(microsoft("minBytes='134217728'")),
            "f:2:12: no call is in the window of 134217728 bytes and more, below 134217728 "
            "(without outofplace maxBytes is the first size too many)");
  EXPECT_EQ(faults(microsoft("maxBytes='1'")),
            "f:2:12: no call is in the window of 0 bytes and more, below 1 (without outofplace "
            "maxBytes is the first size too many)");
  EXPECT_EQ(faults(rccl("minBytes='65' maxBytes='64'")),
            "f:2:41: no call is in the window of 65 bytes to 64");
}

TEST(XmlUse, NumbersBelowZeroAreFaults) {
  EXPECT_EQ(faults(ours("min_bytes='-1' max_bytes='-2' priority='-1' version='-1'")),
            "f:2:1: min_bytes=\"-1\" is outside 0..9223372036854775807\n"
            "f:2:16: max_bytes=\"-2\" is outside 1..9223372036854775807\n"
            "f:2:31: priority=\"-1\" is outside 0..2147483647\n"
            "f:2:45: version=\"-1\" is outside 0..9223372036854775807");
  EXPECT_EQ(faults(rccl("minBytes='-1' maxBytes='-1' priority='-1' version='-1'")),
            "f:2:27: minBytes=\"-1\" is outside 0..9223372036854775807\n"
            "f:2:41: maxBytes=\"-1\" is outside 0..9223372036854775807\n"
            "f:2:55: priority=\"-1\" is outside 0..2147483647\n"
            "f:2:69: version=\"-1\" is outside 0..9223372036854775807");
}

TEST(XmlUse, ReadsProtocolsInTheWordsOfTheDialect) {
  EXPECT_EQ(use(ours("")).protocol, ProgramProtocol::Simple);
  EXPECT_EQ(use(ours("protocol='simple'")).protocol, ProgramProtocol::Simple);
  EXPECT_EQ(use(ours("protocol='low_latency'")).protocol, ProgramProtocol::LowLatency);
  EXPECT_EQ(use(ours("protocol='low_latency_128'")).protocol, ProgramProtocol::LowLatency128);
  EXPECT_EQ(use(theirs("proto='Simple'")).protocol, ProgramProtocol::Simple);
  EXPECT_EQ(use(theirs("proto='LL'")).protocol, ProgramProtocol::LowLatency);
  EXPECT_EQ(use(theirs("proto='LL128'")).protocol, ProgramProtocol::LowLatency128);
  EXPECT_EQ(faults(ours("protocol='LL'")),
            "f:2:1: protocol=\"LL\" is not a protocol; there are simple, low_latency and "
            "low_latency_128");
  EXPECT_EQ(faults(theirs("")), "f:1:1: <algo> lacks the attribute proto");
}

TEST(XmlUse, ReadsPriorityTopologyAndVersionInBothDialects) {
  const std::string attributes = "priority='3' topology='two_hosts' version='20261201' ";
  const ProgramUse expected{7, 10, ProgramProtocol::LowLatency, 3, "two_hosts", 20261201};
  EXPECT_EQ(use(ours(attributes + "protocol='low_latency' min_bytes='7' max_bytes='9'")), expected);
  EXPECT_EQ(use(rccl(attributes + "minBytes='7' maxBytes='9'")), expected);
}

TEST(XmlUse, ATopologyIsAName) {
  const std::string reason = " is not a name: 1 to 255 bytes of printable ASCII without blanks";
  EXPECT_EQ(faults(ours("topology=''")), "f:2:1: topology=\"\"" + reason);
  EXPECT_EQ(faults(ours("topology='a b'")), "f:2:1: topology=\"a b\"" + reason);
  EXPECT_EQ(faults(rccl("topology='a\tb'")), "f:2:27: topology=\"a?b\"" + reason);
  EXPECT_EQ(use(ours("topology='" + std::string(255, 'a') + "'")).topology.size(), 255u);
  EXPECT_EQ(faults(ours("topology='" + std::string(256, 'a') + "'")),
            "f:2:1: topology=\"" + std::string(40, 'a') + "...\"" + reason);
}

// The first line of a text.
std::string header(const Program& program, XmlDialect dialect, const ProgramUse& use) {
  const Result<std::string> text = write_xml(program, dialect, use);
  if (!text.is_ok()) return text.status().to_string();
  return text.value().substr(0, text.value().find('\n'));
}

TEST(XmlUse, WritesWhatAFileSaysAndNothingElse) {
  Program program = make_two_rank_ring();
  const ProgramUse all{7, 10, ProgramProtocol::LowLatency128, 3, "two_hosts", 4};
  EXPECT_EQ(header(program, XmlDialect::Mccl, all),
            R"(<program name="all_reduce_ring" collective="all_reduce" ranks="2" chunks="2")"
            R"( in_place="true" out_of_place="true" min_bytes="7" max_bytes="9")"
            R"( protocol="low_latency_128" priority="3" topology="two_hosts" version="4">)");
  EXPECT_EQ(header(program, XmlDialect::Msccl, all),
            R"(<algo name="all_reduce_ring" proto="LL128" nchannels="1" nchunksperloop="2")"
            R"( ngpus="2" coll="allreduce" inplace="1" outofplace="1" minBytes="7" maxBytes="9")"
            R"( priority="3" topology="two_hosts" version="4">)");
}

TEST(XmlUse, WithoutALimitOnlyAProgramWithoutScratchNamesTheLargestNumber) {
  Program program = make_two_rank_ring();
  const std::string start =
      R"(<algo name="all_reduce_ring" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2")"
      R"( coll="allreduce" inplace="1" outofplace="1" minBytes="0" maxBytes=")";
  EXPECT_EQ(header(program, XmlDialect::Msccl, {}), start + kLargest + "\">");
  program.ranks[1].scratch_chunk_count = 1;
  EXPECT_EQ(header(program, XmlDialect::Msccl, {}), start + "0\">");
}

TEST(XmlUse, RefusesToWriteWhatNoFileCanSay) {
  const Program program = make_two_rank_ring();
  const auto error = [&](const ProgramUse& use) {
    return write_xml(program, XmlDialect::Mccl, use).status().to_string();
  };
  EXPECT_EQ(error({.begin_bytes = -1}), "invalid argument: the window begins at -1 bytes");
  EXPECT_EQ(error({.begin_bytes = 8, .end_bytes = 8}),
            "invalid argument: no call is in the window of 8 bytes and more, below 8");
  EXPECT_EQ(error({.end_bytes = 1}),
            "invalid argument: no call is in the window of 0 bytes and more, below 1");
  EXPECT_EQ(error({.priority = -1}), "invalid argument: priority -1 is below 0");
  EXPECT_EQ(error({.version = -1}), "invalid argument: version -1 is below 0");
  EXPECT_EQ(error({.topology = "a b"}),
            "invalid argument: the topology is not a name: 1 to 255 bytes of printable ASCII "
            "without blanks");
  EXPECT_EQ(write_xml(program, XmlDialect::Msccl, {.topology = "a&b"}).status().to_string(),
            "unsupported: the topology has one of & < > \" ', which MSCCL's loaders cannot read");
}

TEST(XmlUse, AFileAtFaultIsMeantForNothing) {
  const XmlReadResult read = read_xml(ours("priority='3' version='x'"));
  EXPECT_FALSE(read.is_ok());
  EXPECT_EQ(read.use, ProgramUse());
}

}  // namespace
}  // namespace mccl
