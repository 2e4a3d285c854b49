// Files to programs that may be chosen: what is read, what it is called, what is refused.
#include "comm/program_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "support/program_files.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Program built_in(const char* algorithm, int rank_count, const char* name) {
  Program program = find_algorithm(algorithm)->build(rank_count).value();
  program.name = name;
  return program;
}

std::vector<std::string> names_of(const ProgramLibrary& library) {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : library.loaded()) names.emplace_back(algorithm->name);
  return names;
}

Config of_files(const std::string& files) {
  Config config;
  config.program_files = files;
  return config;
}

Status prove(ProgramLibrary& library, int rank_count) {
  std::vector<std::string> warnings;
  const Status status = library.prove(rank_count, &warnings);
  EXPECT_THAT(warnings, ElementsAre());
  return status;
}

TEST(ProgramLibrary, IsEmptyWithoutSettings) {
  ProgramLibrary library{Config{}};
  EXPECT_EQ(library.fault().to_string(), "ok");
  EXPECT_EQ(library.digest(), "");
  EXPECT_EQ(library.loaded().size(), 0u);
  EXPECT_EQ(library.algorithms().size(), catalog().size());
}

TEST(ProgramLibrary, ReadsFilesAListAndAFolder) {
  const ProgramFolder folder;
  const ProgramFolder other;
  const std::string a = folder.write("a.xml", built_in("all_reduce_ring", 3, "Ring of mine"));
  const std::string b = other.write("b.xml", built_in("all_gather_ring", 2, "gather"),
                                    {.begin_bytes = 7, .priority = 2}, XmlDialect::Mccl);
  const std::string list = other.write_text(
      "list", "<msccl_algos><load path=\"" + b +
                  "\" minBytes=\"64\" maxBytes=\"4096\" proto=\"LL\"/></msccl_algos>");
  Config config = of_files(a);
  config.program_list_file = list;
  config.program_folder = folder.path();  // a.xml again
  ProgramLibrary library(config);
  ASSERT_EQ(library.fault().to_string(), "ok");
  EXPECT_THAT(names_of(library), ElementsAre("gather", "ring_of_mine"));
  EXPECT_THAT(library.files(), ElementsAre(b, a));
  EXPECT_THAT(library.notices(),
              ElementsAre(list + ": minBytes and maxBytes are obeyed here; "
                                 "microsoft/msccl looks for minbytes and maxbytes and "
                                 "takes no notice of them"));
  const LoadedProgram& gather = *library.loaded()[0]->loaded;
  EXPECT_EQ(gather.use.begin_bytes, 64);
  EXPECT_EQ(gather.use.end_bytes, 4096);
  EXPECT_EQ(gather.use.protocol, ProgramProtocol::LowLatency);
  EXPECT_EQ(gather.use.priority, 2);
  EXPECT_EQ(prove(library, 3).to_string(), "ok");
  EXPECT_EQ(library.proven_count(), 1);
  EXPECT_NE(library.find_proven(*library.loaded()[1]), nullptr);
}

TEST(ProgramLibrary, DigestAndNamesDoNotDependOnTheOrderOfFiles) {
  const ProgramFolder folder;
  const std::string a = folder.write("a.xml", built_in("all_reduce_ring", 2, "pairs"));
  const std::string b = folder.write("b.xml", built_in("all_reduce_all_pairs", 2, "pairs"));
  ProgramLibrary forward(of_files(a + ":" + b));
  ProgramLibrary backward(of_files(b + ":" + a));
  EXPECT_THAT(names_of(forward), ElementsAre("pairs_a", "pairs_b"));
  EXPECT_THAT(names_of(backward), ElementsAre("pairs_a", "pairs_b"));
  EXPECT_EQ(forward.digest(), backward.digest());
  EXPECT_EQ(forward.digest().size(), 64u);
  folder.write("b.xml", built_in("all_reduce_all_pairs", 2, "pairs"), {.priority = 1});
  EXPECT_NE(ProgramLibrary(of_files(a + ":" + b)).digest(), forward.digest());
}

TEST(ProgramLibrary, RefusesNamesThatMeanSomethingElse) {
  const ProgramFolder folder;
  const ProgramFolder other;
  const std::string ring =
      folder.write("ring.xml", built_in("all_reduce_ring", 2, "all_reduce_ring"));
  EXPECT_EQ(ProgramLibrary(of_files(ring)).fault().message(),
            ring + ": \"all_reduce_ring\" is the name of a built-in program; give it another name");
  const std::string a = folder.write("a.xml", built_in("all_reduce_ring", 2, "mine"));
  const std::string b = other.write("a.xml", built_in("all_reduce_all_pairs", 2, "mine"));
  EXPECT_THAT(ProgramLibrary(of_files(a + ":" + b)).fault().message(),
              HasSubstr(" are both called \"mine_a\"; give one of them another name"));
}

TEST(ProgramLibrary, NamesFileLineColumnAndReasonOfEveryFault) {
  const ProgramFolder folder;
  const std::string bad = folder.write_text("bad.xml", "<program\n name=>");
  const Status fault = ProgramLibrary(of_files(folder.path() + "/none.xml:" + bad)).fault();
  EXPECT_EQ(fault.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(fault.message(),
              StartsWith(folder.path() + "/none.xml: cannot be read\n" + bad + ":2:"));
  EXPECT_THAT(ProgramLibrary(of_files(folder.path())).fault().message(),
              HasSubstr(": is a folder, not a file"));
}

Program dropping_a_contribution() {
  Program program = built_in("all_reduce_ring", 2, "wrong");
  for (RankProgram& rank : program.ranks)
    for (Lane& lane : rank.lanes)
      for (Step& step : lane.steps)
        if (step.opcode == Opcode::RecvReduceCopySend) {
          step.opcode = Opcode::RecvCopySend;
          step.sources.clear();
        }
  return program;
}

TEST(ProgramLibrary, SaysWhereAProgramIsNotProven) {
  const ProgramFolder folder;
  const std::string wrong = folder.write("wrong.xml", dropping_a_contribution());
  ProgramLibrary library(of_files(wrong));
  ASSERT_EQ(library.fault().to_string(), "ok");
  EXPECT_EQ(prove(library, 3).to_string(), "ok");  // not asked for
  const Status status = prove(library, 2);
  EXPECT_EQ(status.code(), StatusCode::NotProven);
  EXPECT_THAT(status.message(), StartsWith(wrong + ":"));
  EXPECT_THAT(status.message(), HasSubstr("not proven, postcondition: rank 0: output["));
  EXPECT_THAT(status.message(), HasSubstr("MCCL_ALGO_UNPROVEN=allow runs it all the same"));
  EXPECT_EQ(prove(library, 2).message(), status.message());
}

TEST(ProgramLibrary, AllowsWhatMerelyComputesSomethingElse) {
  const ProgramFolder folder;
  Config config = of_files(folder.write("wrong.xml", dropping_a_contribution()));
  config.allows_unproven = true;
  ProgramLibrary library(config);
  std::vector<std::string> warnings;
  EXPECT_EQ(library.prove(2, &warnings).to_string(), "ok");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("computes something else than its collective and "
                                              "runs, because MCCL_ALGO_UNPROVEN=allow")));
  Program racing = built_in("all_reduce_all_pairs", 3, "racing");
  for (RankProgram& rank : racing.ranks)
    for (Lane& lane : rank.lanes)
      for (Step& step : lane.steps) step.dependences.clear();
  config.program_files = folder.write("racing.xml", racing);
  ProgramLibrary racing_library(config);
  EXPECT_EQ(prove(racing_library, 3).code(), StatusCode::NotProven);
}

constexpr const char* kRanksOfRing =
    "<gpu id=\"0\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">"
    "<tb id=\"0\" send=\"1\" recv=\"1\" chan=\"0\">"
    "<step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "<step s=\"1\" type=\"rrcs\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "<step s=\"2\" type=\"r\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "</tb></gpu>"
    "<gpu id=\"1\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">"
    "<tb id=\"0\" send=\"0\" recv=\"0\" chan=\"0\">"
    "<step s=\"0\" type=\"s\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"i\" dstoff=\"1\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "<step s=\"1\" type=\"rrcs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "<step s=\"2\" type=\"r\" srcbuf=\"i\" srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\" "
    "depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>"
    "</tb></gpu></algo>";

// The whole way from a file's words to the table: which of five sizes around 4096 and 65536 are
// served.
std::string served_sizes(const std::string& attributes) {
  const ProgramFolder folder;
  ProgramLibrary library(of_files(
      folder.write_text("ring.xml",
                        "<algo name=\"mine\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" "
                        "coll=\"allreduce\" proto=\"Simple\" inplace=\"1\" " +
                            attributes + ">" + kRanksOfRing)));
  EXPECT_EQ(prove(library, 2).to_string(), "ok");
  const Result<PlanTable> table = build_plan_table(make_topology(2, 1), {}, library.algorithms());
  EXPECT_EQ(table.status().to_string(), "ok");
  std::string served;
  for (const int64_t bytes : {0, 4095, 4096, 65535, 65536, 65537})
    if (find_entry(table.value(), Collective::AllReduce, bytes).value()->algorithm == "mine")
      served += std::to_string(bytes) + " ";
  return served;
}

TEST(ProgramLibrary, AWindowMeansWhatTheFilesDialectMeans) {
  // microsoft/msccl: below maxBytes, 128 MiB where it is absent.
  EXPECT_EQ(served_sizes("minBytes=\"4096\" maxBytes=\"65536\""), "4096 65535 ");
  EXPECT_EQ(served_sizes(""), "0 4095 4096 65535 65536 65537 ");
  // Azure's and RCCL's: up to maxBytes, 0 is no limit.
  EXPECT_EQ(served_sizes("outofplace=\"1\" minBytes=\"4096\" maxBytes=\"65536\""),
            "4096 65535 65536 ");
  EXPECT_EQ(served_sizes("outofplace=\"1\" minBytes=\"4096\" maxBytes=\"0\""),
            "4096 65535 65536 65537 ");
}

TEST(ProgramLibrary, CountsDivideInTheUnitOfWhoeverRequiresTheFilesAttributes) {
  const ProgramFolder folder;
  const auto dialect_of = [&](const char* attribute) {
    ProgramLibrary library(of_files(folder.write_text(
        "ring.xml",
        std::string("<algo name=\"mine\" nchannels=\"1\" nchunksperloop=\"2\" ngpus=\"2\" "
                    "coll=\"allreduce\" proto=\"LL\" inplace=\"1\"") +
            attribute + ">" + kRanksOfRing)));
    EXPECT_EQ(library.fault().to_string(), "ok");
    return library.loaded()[0]->loaded->dialect;
  };
  EXPECT_EQ(dialect_of(""), XmlDialect::Msccl);                  // bytes of gathers and broadcasts
  EXPECT_EQ(dialect_of(" outofplace=\"1\""), XmlDialect::Mccl);  // elements
}

TEST(ProgramLibrary, NotesThatRanksWouldDifferInBits) {
  const ProgramFolder folder;
  ProgramLibrary library(of_files(folder.write("one.xml", make_one_step_all_reduce(3))));
  std::vector<std::string> warnings;
  EXPECT_EQ(library.prove(3, &warnings).to_string(), "ok");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("would differ in bits")));
  EXPECT_FALSE(library.loaded()[0]->loaded->is_bitwise_equal);
  EXPECT_FALSE(library.loaded()[0]->reduces_in_rank_order);
}

TEST(ProgramLibrary, KnowsWhichProgramsReduceInRankOrder) {
  const ProgramFolder folder;
  ProgramLibrary library(of_files(folder.write("p.xml", built_in("all_reduce_all_pairs", 4, "p")) +
                                  ":" +
                                  folder.write("r.xml", built_in("all_reduce_ring", 4, "r"))));
  EXPECT_EQ(prove(library, 4).to_string(), "ok");
  EXPECT_TRUE(library.loaded()[0]->reduces_in_rank_order);
  EXPECT_FALSE(library.loaded()[1]->reduces_in_rank_order);
}

}  // namespace
}  // namespace mccl
