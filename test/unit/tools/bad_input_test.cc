// Files that are wrong: each is refused with line, column and reason, all faults at once.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/file_report.h"

namespace mccl {
namespace {

std::string faults(const std::string& text) {
  return to_string(make_file_report(text, XmlTarget::Mccl), "f");
}

// Two gpus, out of place, two chunks.
std::string algo(const std::string& gpus) {
  return "<algo name='x' proto='Simple' nchannels='1' nchunksperloop='2' ngpus='2'"
         " coll='allreduce' inplace='0' outofplace='1'>\n" +
         gpus + "</algo>\n";
}
std::string gpu(int id, const std::string& tbs, int scratch_chunks = 0) {
  return "<gpu id='" + std::to_string(id) + "' i_chunks='2' o_chunks='2' s_chunks='" +
         std::to_string(scratch_chunks) + "'>\n" + tbs + "</gpu>\n";
}
std::string tb(int id, int send, int recv, const std::string& steps) {
  return "<tb id='" + std::to_string(id) + "' send='" + std::to_string(send) + "' recv='" +
         std::to_string(recv) + "' chan='0'>\n" + steps + "</tb>\n";
}
// `src` and `dst` as "i0": buffer and offset.
std::string step(int number, const std::string& type, const std::string& src,
                 const std::string& dst, int count, const std::string& dependence = "-1 -1",
                 int has_dependents = 0) {
  const size_t blank = dependence.find(' ');
  return "<step s='" + std::to_string(number) + "' type='" + type + "' srcbuf='" + src[0] +
         "' srcoff='" + src.substr(1) + "' dstbuf='" + dst[0] + "' dstoff='" + dst.substr(1) +
         "' cnt='" + std::to_string(count) + "' depid='" + dependence.substr(0, blank) +
         "' deps='" + dependence.substr(blank + 1) + "' hasdep='" + std::to_string(has_dependents) +
         "'/>\n";
}

// Each rank sends everything to the other and adds what comes to a copy of its own.
std::string exchange(const std::string& dependence, int has_dependents) {
  std::string gpus;
  for (const int rank : {0, 1}) {
    const int peer = 1 - rank;
    gpus += gpu(
        rank,
        tb(0, peer, peer,
           step(0, "s", "i0", "o-1", 2) + step(1, "r", "i-1", "s0", 2, "-1 -1", has_dependents)) +
            tb(1, -1, -1, step(0, "cpy", "i0", "o0", 2) + step(1, "re", "s0", "o0", 2, dependence)),
        2);
  }
  return algo(gpus);
}

TEST(BadInput, TheExchangeItselfIsRight) {
  const FileReport report = make_file_report(exchange("0 1", 1), XmlTarget::Mccl);
  EXPECT_EQ(to_string(report, "f"), "");
  EXPECT_TRUE(report.is_fit());
  EXPECT_EQ(report.proof.credits_needed, 1);
}

TEST(BadInput, AMissingDependenceIsARaceAtTheLaterStep) {
  EXPECT_EQ(
      faults(exchange("-1 -1", 0)),
      "f:5:1: race: rank 0: scratch[0] is read by lane 1 step 1 and written by lane 0 step 1, and "
      "nothing orders the two\n"
      "  f:9:1: rank 0 lane 1 step 1: reduce output[0..2) <- scratch[0..2)\n"
      "  f:5:1: rank 0 lane 0 step 1: recv scratch[0..2) <- message from 1 on channel 0\n"
      "f:19:1: race: rank 1: scratch[0] is written by lane 0 step 1 and read by lane 1 step 1, "
      "and nothing orders the two\n"
      "  f:15:1: rank 1 lane 0 step 1: recv scratch[0..2) <- message from 0 on channel 0\n"
      "  f:19:1: rank 1 lane 1 step 1: reduce output[0..2) <- scratch[0..2)\n");
}

TEST(BadInput, AHasdepThatLiesIsAFaultWhereverItIsWaitedFor) {
  EXPECT_EQ(faults(exchange("0 1", 0)),
            "f:9:85: deps=\"1\" names a step whose hasdep is 0: the wait never ends\n"
            "f:19:85: deps=\"1\" names a step whose hasdep is 0: the wait never ends\n");
  EXPECT_EQ(faults(exchange("-1 -1", 2)),
            "f:5:96: hasdep=\"2\" is outside 0..1\n"
            "f:15:96: hasdep=\"2\" is outside 0..1\n");
}

TEST(BadInput, CountsThatDoNotPairAreFaultsAtTheReceiver) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, 1, -1, step(0, "s", "i0", "o-1", 2))) +
                        gpu(1, tb(0, -1, 0, step(0, "r", "i-1", "o0", 1))))),
            "f:9:1: pairing: stream from rank 0 to rank 1 on channel 0: message 0 is sent with 2 "
            "chunks and received with 1\n"
            "  f:4:1: rank 0 lane 0 step 0: send <- input[0..2) -> message to 1 on channel 0\n"
            "  f:9:1: rank 1 lane 0 step 0: recv output[0] <- message from 0 on channel 0\n");
}

TEST(BadInput, AMessageWithoutAnotherEndIsAFaultWhereItStands) {
  EXPECT_EQ(faults(algo(
                gpu(0, tb(0, 1, -1, step(0, "s", "i0", "o-1", 1) + step(1, "s", "i1", "o-1", 1))) +
                gpu(1, tb(0, -1, 0, step(0, "r", "i-1", "o0", 1))))),
            "f:5:1: pairing: stream from rank 0 to rank 1 on channel 0: rank 0 lane 0 sends 2 "
            "messages, rank 1 lane 0 receives 1 message\n");
}

TEST(BadInput, WaitsInACircleAreListedStepByStep) {
  const std::string steps = step(0, "r", "i-1", "o0", 2) + step(1, "s", "i0", "o-1", 2);
  EXPECT_EQ(
      faults(algo(gpu(0, tb(0, 1, 1, steps)) + gpu(1, tb(0, 0, 0, steps)))),
      "f:4:1: deadlock: 4 steps of 4 can never run with two messages outstanding per stream\n"
      "  f:4:1: rank 0 lane 0 step 0: recv output[0..2) <- message from 1 on channel 0 waits for "
      "its message, sent by rank 1 lane 0 step 1\n"
      "  f:11:1: rank 1 lane 0 step 1: send <- input[0..2) -> message to 0 on channel 0 waits for "
      "the step before it rank 1 lane 0 step 0\n"
      "  f:10:1: rank 1 lane 0 step 0: recv output[0..2) <- message from 0 on channel 0 waits for "
      "its message, sent by rank 0 lane 0 step 1\n"
      "  f:5:1: rank 0 lane 0 step 1: send <- input[0..2) -> message to 1 on channel 0 waits for "
      "the step before it rank 0 lane 0 step 0\n");
}

TEST(BadInput, DependencesInACircleAreListedToo) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, -1, -1, step(0, "cpy", "i0", "o0", 1, "1 0", 1)) +
                                   tb(1, -1, -1, step(0, "cpy", "i1", "o1", 1, "0 0", 1))) +
                        gpu(1, ""))),
            "f:4:1: deadlock: 2 steps of 2 can never run with two messages outstanding per stream\n"
            "  f:4:1: rank 0 lane 0 step 0: copy output[0] <- input[0] waits for its dependence "
            "rank 0 lane 1 step 0\n"
            "  f:7:1: rank 0 lane 1 step 0: copy output[1] <- input[1] waits for its dependence "
            "rank 0 lane 0 step 0\n");
}

TEST(BadInput, ALongCircleIsCutOff) {
  std::string first = step(0, "cpy", "i0", "o0", 1, "1 29", 1);
  std::string second = step(0, "cpy", "i1", "o1", 1, "0 29", 1);
  for (int number = 1; number < 30; ++number) {
    first += step(number, "cpy", "i0", "o0", 1, "-1 -1", 1);
    second += step(number, "cpy", "i1", "o1", 1, "-1 -1", 1);
  }
  const std::string text =
      faults(algo(gpu(0, tb(0, -1, -1, first) + tb(1, -1, -1, second)) + gpu(1, "")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 42);
  EXPECT_EQ(text.substr(text.rfind("  and")), "  and 20 steps more\n");
}

TEST(BadInput, APeerMustBeAnotherRank) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, 0, 1, "")) + gpu(1, tb(0, 2, -2, "")))),
            "f:3:12: send peer 0 is the rank itself\n"
            "f:7:12: send peer 2 is outside -1..1\n"
            "f:7:21: recv=\"-2\" is outside -1..4095\n");
}

TEST(BadInput, DuplicateIdsAreFaultsAtTheSecond) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, -1, -1, "") + tb(0, -1, -1, "")) + gpu(0, ""))),
            "f:5:5: a second <tb> with id 0\n"
            "f:8:6: a second <gpu> with id 0\n");
}

TEST(BadInput, OffsetsMustLieInTheirBuffers) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, -1, -1,
                                  step(0, "cpy", "i2", "o0", 1) + step(1, "cpy", "i1", "o1", 2) +
                                      step(2, "cpy", "i-1", "o99999999999999999999", 1) +
                                      step(3, "cpy", "s0", "o0", 1))) +
                        gpu(1, ""))),
            "f:4:35: chunk 2 is past the end of input, which has 2 chunks\n"
            "f:5:35: chunk 2 is past the end of input, which has 2 chunks\n"
            "f:5:57: chunk 2 is past the end of output, which has 2 chunks\n"
            "f:6:35: srcoff=\"-1\" is outside 0..1048575\n"
            "f:6:58: dstoff=\"99999999999999999999\" is outside 0..1048575\n"
            "f:7:35: chunk 0 is past the end of scratch, which has 0 chunks\n");
}

TEST(BadInput, OneStreamEndHasOneTb) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, 1, -1, "") + tb(1, 1, -1, "")) + gpu(1, ""))),
            "f:5:1: structure: rank 0: lanes 0 and 1 both send to rank 1 on channel 0; a stream "
            "end belongs to one lane\n");
}

TEST(BadInput, AChunkThatLacksAContributionIsAFaultAtItsLastWriter) {
  EXPECT_EQ(faults(algo(gpu(0, tb(0, -1, -1, step(0, "cpy", "i0", "o0", 1))) + gpu(1, ""))),
            "f:2:1: postcondition: rank 0: output[1] is never written\n"
            "f:4:1: postcondition: rank 0: output[0] lacks rank 1's contribution\n"
            "  f:4:1: it holds 0\n"
            "  f:4:1: last written by rank 0 lane 0 step 0: copy output[0] <- input[0]\n"
            "f:7:1: postcondition: rank 1: output[0] is never written\n"
            "f:7:1: postcondition: rank 1: output[1] is never written\n");
}

// A file that ends anywhere is refused at its end, and nothing of it is read.
TEST(BadInput, ATextCutOffAnywhereIsOneFault) {
  const std::string whole = exchange("0 1", 1);
  for (size_t length = 0; length + 1 < whole.size(); ++length) {
    const XmlReadResult read = read_xml(std::string_view(whole).substr(0, length));
    ASSERT_EQ(read.faults.size(), 1u) << length;
    ASSERT_EQ(read.faults[0].text.substr(0, 15), "malformed XML: ") << length;
  }
  EXPECT_EQ(faults(whole.substr(0, 50)),
            "f:1:51: malformed XML: an attribute is not of the form name=\"value\"\n");
  EXPECT_EQ(faults(whole.substr(0, whole.size() - 9)),
            "f:21:7: malformed XML: the text ends before all elements are closed\n");
  EXPECT_EQ(faults(""), "f:1:1: malformed XML: there is no element\n");
}

TEST(BadInput, AMillionElementsInEachOtherAreReadAndIgnored) {
  std::string deep;
  for (int depth = 0; depth < 1'000'000; ++depth) deep += "<a>";
  EXPECT_EQ(faults("<algo>\n" + deep),
            "f:2:3000001: malformed XML: the text ends before all elements are closed\n");
  std::string closed = deep;
  for (int depth = 0; depth < 1'000'000; ++depth) closed += "</a>";
  const std::string whole = algo(closed + gpu(0, tb(0, -1, -1, "")) + gpu(1, ""));
  EXPECT_TRUE(read_xml(whole).is_ok());
}

TEST(BadInput, AValueOfAHundredMegabytesIsQuotedShort) {
  std::string text = algo(gpu(0, "") + gpu(1, ""));
  const std::string huge(size_t{100} << 20, '7');
  const size_t at = text.find("nchannels='1'") + std::string("nchannels='").size();
  text.replace(at, 1, huge);
  EXPECT_EQ(faults(text),
            "f:1:31: nchannels=\"" + std::string(40, '7') + "...\" is outside 1..1024\n");
}

// MSCCL's loaders take hexadecimal and octal numbers; a reader of the file takes 010 for ten.
TEST(BadInput, NumbersThatLoadersReadInAnotherBaseAreFaults) {
  EXPECT_EQ(
      faults(algo(gpu(0, tb(0, -1, -1,
                            step(0, "cpy", "i0x1", "o01", 1) + step(1, "cpy", "i+1", "o 1", 1))) +
                  gpu(1, ""))),
      "f:4:35: srcoff=\"0x1\" is not a decimal number\n"
      "f:4:59: dstoff=\"01\" is not a decimal number\n"
      "f:5:35: srcoff=\"+1\" is not a decimal number\n"
      "f:5:58: dstoff=\" 1\" is not a decimal number\n");
}

}  // namespace
}  // namespace mccl
