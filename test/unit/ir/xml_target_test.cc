// What the loaders of MSCCL's runtimes refuse or damage.
#include "ir/xml_target.h"

#include <gtest/gtest.h>

#include "xml_programs.h"

namespace mccl {
namespace {

std::string faults(const std::string& text, XmlTarget target) {
  XmlReadResult read = read_xml(text);
  EXPECT_EQ(read.to_string("f"), "");
  if (!read.is_ok()) return "";
  read.faults = check_target(text, read, target);
  return read.to_string("f");
}

// A file that microsoft's loader takes.
struct File {
  std::string algo =
      "name=\"x\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"100\" ngpus=\"1\""
      " coll=\"allreduce\" inplace=\"1\"";
  std::string gpu = "i_chunks=\"100\" o_chunks=\"100\" s_chunks=\"100\"";
  std::string tbs;

  std::string text() const {
    return "<algo " + algo + ">\n<gpu id=\"0\" " + gpu + ">\n" + tbs + "</gpu>\n</algo>\n";
  }
};

std::string tb(int id, const std::string& steps) {
  return "<tb id=\"" + std::to_string(id) + "\" send=\"-1\" recv=\"-1\" chan=\"0\">\n" + steps +
         "</tb>\n";
}

std::string step(int number, const std::string& type, int source, int count,
                 const std::string& dependence = "depid=\"-1\" deps=\"-1\"",
                 int has_dependents = 0) {
  return "<step s=\"" + std::to_string(number) + "\" type=\"" + type + "\" srcbuf=\"s\" srcoff=\"" +
         std::to_string(source) + "\" dstbuf=\"o\" dstoff=\"0\" cnt=\"" + std::to_string(count) +
         "\" " + dependence + " hasdep=\"" + std::to_string(has_dependents) + "\"/>\n";
}

std::string with_tbs(const std::string& tbs, XmlTarget target = XmlTarget::Msccl) {
  File file;
  file.tbs = tbs;
  return faults(file.text(), target);
}

TEST(XmlTarget, NamesAreThoseOfTheCommandLine) {
  for (const char* name : {"mccl", "msccl", "executor", "rccl"})
    EXPECT_EQ(target_name(find_target(name).value()), name);
  EXPECT_FALSE(find_target("nccl"));
}

TEST(XmlTarget, AMicrosoftFileLacksWhatNewerLoadersRequire) {
  EXPECT_EQ(faults(File().text(), XmlTarget::Msccl), "");
  EXPECT_EQ(faults(File().text(), XmlTarget::Mccl), "");
  EXPECT_EQ(faults(File().text(), XmlTarget::Executor),
            "f:1:1: <algo> lacks the attribute outofplace, which is required (executor)\n"
            "f:1:1: <algo> lacks the attribute minBytes, which is required (executor)\n"
            "f:1:1: <algo> lacks the attribute maxBytes, which is required (executor)");
}

TEST(XmlTarget, ANewerFileMayServeNoCallOfMicrosofts) {
  File file;
  file.algo += " outofplace=\"1\" minBytes=\"64\" maxBytes=\"64\"";
  EXPECT_EQ(faults(file.text(), XmlTarget::Executor), "");
  EXPECT_EQ(faults(file.text(), XmlTarget::Msccl),
            "f:1:130: maxBytes=\"64\" is taken for the first size too many: the file serves no "
            "call (msccl)");
  File endless;
  endless.algo += " maxBytes=\"9223372036854775807\"";
  EXPECT_EQ(faults(endless.text(), XmlTarget::Msccl),
            "f:1:101: maxBytes=\"9223372036854775807\", of which the loader allocates scratch when "
            "it starts (msccl)");
}

TEST(XmlTarget, CollectivesAndNamesAreThoseThatTheLoaderKnows) {
  File file;
  file.algo = "name=\"" + std::string(64, 'x') +
              "\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"100\" ngpus=\"1\""
              " coll=\"reduce_scatter\" inplace=\"1\" outofplace=\"1\" minBytes=\"0\""
              " maxBytes=\"8\"";
  EXPECT_EQ(faults(file.text(), XmlTarget::Msccl),
            "f:1:7: the name has 64 bytes, of which 63 are kept (msccl)");
  EXPECT_EQ(faults(file.text(), XmlTarget::Rccl),
            "f:1:135: coll=\"reduce_scatter\" is not known to the loader; it knows allreduce "
            "allgather reduce broadcast alltoall reducescatter gather scatter (rccl)");
}

TEST(XmlTarget, StepsOfATbAreCountedWithTheirNops) {
  std::string steps;
  for (int number = 0; number < 256; ++number)
    steps += step(number, "cpy", 0, 1, "depid=\"-1\" deps=\"-1\"", 0);
  EXPECT_EQ(with_tbs(tb(0, steps)), "");
  EXPECT_EQ(with_tbs(tb(0, steps + step(256, "cpy", 0, 1))),
            "f:3:5: 257 steps in the tb, nops included, at most 256 are loaded (msccl)");
}

TEST(XmlTarget, TbsOfAGpuAreLimited) {
  std::string tbs;
  for (int id = 0; id < 217; ++id) tbs += tb(id, "");
  EXPECT_EQ(with_tbs(tbs), "f:2:6: 217 tbs on one gpu, at most 216 are loaded (msccl)");
}

TEST(XmlTarget, TbsOfOneDirectionOfAChannelAreLimited) {
  File file;
  file.algo =
      "name=\"x\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"100\" ngpus=\"34\""
      " coll=\"allreduce\" inplace=\"1\"";
  std::string text = "<algo " + file.algo + ">\n<gpu id=\"0\" " + file.gpu + ">\n";
  for (int id = 0; id < 33; ++id)
    text += "<tb id=\"" + std::to_string(id) + "\" send=\"" + std::to_string(id + 1) +
            "\" recv=\"-1\" chan=\"0\"/>\n";
  text += "</gpu>\n";
  for (int id = 1; id < 34; ++id)
    text += "<gpu id=\"" + std::to_string(id) + "\" " + file.gpu + "/>\n";
  EXPECT_EQ(faults(text + "</algo>\n", XmlTarget::Msccl),
            "f:35:33: more than 32 tbs of the gpu send on channel 0 (msccl)");
}

TEST(XmlTarget, NumbersOfAStepAreLimited) {
  EXPECT_EQ(with_tbs(tb(0, step(0, "cpy", 0, 71) + step(1, "cpy", 0, 72))),
            "f:5:68: 72 chunks in one step, at most 71 are loaded (msccl)");
  File file;
  file.gpu = "i_chunks=\"100\" o_chunks=\"100\" s_chunks=\"40000\"";
  file.tbs = tb(0, step(0, "cpy", 32767, 1) + step(1, "cpy", 32768, 1));
  EXPECT_EQ(faults(file.text(), XmlTarget::Msccl),
            "f:5:35: chunk 32768 is past the last one that can be named, 32767 (msccl)");
}

TEST(XmlTarget, ADependenceOnALateTbDoesNotFitItsNumber) {
  std::string tbs;
  for (int id = 0; id < 129; ++id)
    tbs += tb(id, step(0, "cpy", 0, 1, "depid=\"-1\" deps=\"-1\"", 1));
  tbs += tb(129, step(0, "cpy", 0, 1, "depid=\"127\" deps=\"0\"") +
                     step(1, "cpy", 0, 1, "depid=\"128\" deps=\"0\""));
  EXPECT_EQ(with_tbs(tbs), "f:392:76: a dependence on tb 128; the last one is 127 (msccl)");
}

TEST(XmlTarget, NopsThatShiftStepNumbersAreFaults) {
  const std::string waited = tb(1, step(0, "cpy", 0, 1, "depid=\"-1\" deps=\"-1\"", 1));
  const std::string dependence = "depid=\"1\" deps=\"0\"";
  EXPECT_EQ(with_tbs(tb(0, step(0, "nop", 0, 0, dependence) + step(1, "cpy", 0, 1, dependence) +
                               step(2, "nop", 0, 0, dependence)) +
                     waited),
            "");
  EXPECT_EQ(with_tbs(tb(0, step(0, "nop", 0, 0) + step(1, "cpy", 0, 1, dependence) +
                               step(2, "nop", 0, 0, dependence) + step(3, "cpy", 0, 1)) +
                     waited),
            "f:4:76: a nop that waits for nothing shifts step numbers (msccl)\n"
            "f:6:13: a nop before a step without a dependence shifts step numbers (msccl)");
}

TEST(XmlTarget, ReductionsAreMergedUpToFifteen) {
  std::string steps;
  for (int number = 0; number < 15; ++number) steps += step(number, "re", number, 1);
  EXPECT_EQ(with_tbs(tb(0, steps)), "");
  EXPECT_EQ(with_tbs(tb(0, steps + step(15, "re", 15, 1) + step(16, "re", 16, 1))),
            "f:19:14: more than 15 reductions in a row are merged into one, which loses operands "
            "(msccl)");
  EXPECT_EQ(with_tbs(tb(0, step(0, "re", 0, 1) + step(1, "re", 1, 2))),
            "f:5:67: is merged into the reduction before it, of 1 chunks, which gets this count "
            "(msccl)");
}

TEST(XmlTarget, RcclRunsNoFusedSteps) {
  std::string text(kTwoRankRingMscclText);
  EXPECT_EQ(faults(text, XmlTarget::Executor), "");
  EXPECT_EQ(faults(text, XmlTarget::Rccl),
            "f:5:19: rrcs: programs with rcs, rrs, rrc or rrcs are loaded and never run (rccl)");
}

TEST(XmlTarget, MicrosoftWantsAllOfABufferOrNothing) {
  File file;
  file.gpu = "i_chunks=\"0\" o_chunks=\"99\" s_chunks=\"0\"";
  EXPECT_EQ(faults(file.text(), XmlTarget::Msccl),
            "f:2:26: o_chunks=\"99\" is neither 0 nor all 100 chunks of the output (msccl)");
}

TEST(XmlTarget, TheLoadersParserTakesLessThanXml) {
  std::string text = File().text();
  EXPECT_EQ(faults("<?xml version=\"1.0\"?>\n" + text, XmlTarget::Msccl),
            "f:1:1: there must be no XML declaration or processing instruction (msccl)");
  std::string tabs = text;
  tabs.replace(tabs.find(" proto"), 1, "\t");
  tabs.replace(tabs.find("\n<gpu"), 1, "\n\t");
  tabs.replace(tabs.find(" i_chunks"), 1, "  ");
  EXPECT_EQ(faults(tabs, XmlTarget::Msccl),
            "f:1:15: there must be one blank before an attribute, nothing else (msccl)\n"
            "f:2:1: there must be no tab between tags (msccl)\n"
            "f:2:13: there must be one blank before an attribute, nothing else (msccl)");
  std::string quotes = text;
  quotes.replace(quotes.find("\"x\""), 3, "'x'");
  quotes.replace(quotes.find("id=\"0\""), 6, "id = \"0\"");
  EXPECT_EQ(faults(quotes, XmlTarget::Msccl),
            "f:1:12: a value must be in double quotes: it runs on to the next one (msccl)\n"
            "f:2:6: there must be no blanks around the = of an attribute (msccl)");
  std::string entity = text;
  entity.replace(entity.find("\"x\""), 3, "\"&lt;\"");
  EXPECT_EQ(faults(entity, XmlTarget::Msccl),
            "f:1:12: a value must not have entities: they are taken literally (msccl)");
  std::string many = text;
  std::string attributes;
  for (char name = 'a'; name < 'k'; ++name) attributes += std::string(" ") + name + "=\"1\"";
  many.insert(many.find(" name"), attributes);
  EXPECT_EQ(faults(many, XmlTarget::Msccl),
            "f:1:149: an element has at most 16 attributes, the others are ignored (msccl)");
  EXPECT_EQ(faults("<!-- a\tb='c' -->" + text, XmlTarget::Msccl), "");
}

TEST(XmlTarget, FaultsOfOurDialectStandAtOurElements) {
  const std::string text(kTwoRankRingText);
  EXPECT_EQ(faults(text, XmlTarget::Msccl), "");
  EXPECT_EQ(faults(text, XmlTarget::Rccl),
            "f:5:7: rrcs: programs with rcs, rrs, rrc or rrcs are loaded and never run (rccl)");
  std::string fold = text;
  fold.replace(fold.find("op=\"send\" src=\"i:0\""), 19, "op=\"fold\" src=\"i:0\" dst=\"o:0\"");
  EXPECT_EQ(faults(fold, XmlTarget::Msccl),
            "f:1:1: MSCCL's dialect cannot say it: rank 0 lane 0 step 0: MSCCL has no instruction "
            "fold (msccl)");
}

}  // namespace
}  // namespace mccl
