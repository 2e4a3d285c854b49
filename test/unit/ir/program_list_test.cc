#include "ir/program_list.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

std::string faults_of(std::string_view text) {
  std::string faults;
  for (const XmlFault& fault : read_program_list(text).faults)
    faults +=
        std::to_string(fault.line) + ":" + std::to_string(fault.column) + ": " + fault.text + "\n";
  return faults;
}

TEST(ProgramList, HasWindowsInTheSpellingThatIsReadAndInTheOneThatIsWritten) {
  const ProgramListResult read = read_program_list(
      "<msccl_algos>\n"
      "  <load path=\"a.xml\" minbytes=\"64\" maxbytes=\"4096\" proto=\"LL\"/>\n"
      "  <load path=\"b.xml\" maxbytes=\"-1\"/>\n"
      "</msccl_algos>\n");
  EXPECT_EQ(read.faults.size(), 0u);
  EXPECT_FALSE(read.has_written_spelling);
  EXPECT_EQ(read.entries, (std::vector<ProgramListEntry>{
                              {"a.xml", 64, 4096, ProgramProtocol::LowLatency}, {"b.xml"}}));
  const ProgramListResult written = read_program_list(
      "<msccl_algos><load path=\"a.xml\" minBytes=\"64\" maxBytes=\"0\" proto=\"Simple\"/>"
      "</msccl_algos>");
  EXPECT_TRUE(written.has_written_spelling);
  EXPECT_EQ(written.entries, (std::vector<ProgramListEntry>{
                                 {"a.xml", 64, ProgramUse::kEndless, ProgramProtocol::Simple}}));
}

TEST(ProgramList, NamesEveryFaultWithItsPlace) {
  EXPECT_EQ(faults_of("<algos/>"), "1:1: the root is called \"algos\", expected \"msccl_algos\"\n");
  EXPECT_EQ(faults_of("<msccl_algos>\n<load minbytes=\"x\" proto=\"LL64\"/>\n</msccl_algos>"),
            "2:1: <load> lacks the attribute path\n"
            "2:7: minbytes=\"x\" is not a decimal number\n"
            "2:20: proto=\"LL64\" is none of Simple, LL and LL128\n");
  EXPECT_EQ(faults_of("<msccl_algos><load path=\"a\" minbytes=\"9\" maxbytes=\"9\"/>"
                      "</msccl_algos>"),
            "1:42: the window ends at 9, which is not above where it begins\n");
}

}  // namespace
}  // namespace mccl
