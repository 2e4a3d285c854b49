// The verbs check, show and convert as they are typed.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "check/check_verb.h"
#include "convert/convert_verb.h"
#include "ir/xml.h"
#include "show/show_verb.h"
#include "support/program_fixtures.h"
#include "verb/command.h"

namespace mccl {
namespace {

constexpr std::array kVerbs = {&kCheckVerb, &kConvertVerb, &kShowVerb};

struct Outcome {
  ExitCode code;
  std::string out;
  std::string err;
};

class ProgramVerbs : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / (std::string("verbs_") + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string write(const std::string& name, const Program& program, XmlDialect dialect,
                    const ProgramUse& use = {}) const {
    return write(name, write_xml(program, dialect, use).value());
  }
  std::string content(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path(name), std::ios::binary).rdbuf();
    return text.str();
  }

  // Names of files without their folder.
  std::string shortened(std::string text) const {
    const std::string prefix = path("");
    for (size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
      text.erase(at, prefix.size());
    return text;
  }

  Outcome run(const std::vector<std::string>& arguments) const {
    std::ostringstream out, err;
    Terminal terminal{.out = out, .err = err};
    const Command command{.verbs = kVerbs, .version = "0", .run_program = {}};
    const ExitCode code = run_command(command, arguments, terminal);
    return {code, shortened(out.str()), shortened(err.str())};
  }

 private:
  std::filesystem::path folder_;
};

Program make_wrong_ring() {
  Program program = make_ring_all_reduce(2);
  program.ranks[1].lanes[0].steps.pop_back();
  return program;
}

TEST_F(ProgramVerbs, CheckSaysWhatIsProvenOfEachFile) {
  const std::string ring = write("ring.xml", make_ring_all_reduce(3), XmlDialect::Mccl);
  const std::string gather = write("gather.xml", make_ring_all_gather(2), XmlDialect::Msccl);
  const Outcome outcome = run({"check", ring, gather});
  EXPECT_EQ(outcome.code, ExitCode::Ok);
  EXPECT_EQ(outcome.out,
            "ring.xml: proven: all_reduce among 3 ranks, 3 chunks, in-place and out-of-place "
            "calls; 2 messages outstanding per stream suffice; every rank gets the same bits\n"
            "gather.xml: proven: all_gather among 2 ranks, 1 chunk, in-place and out-of-place "
            "calls; 1 message outstanding per stream suffices; moves bytes\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(ProgramVerbs, CheckGoesOnAfterAFileThatIsWrongOrMissing) {
  const std::string ring = write("ring.xml", make_ring_all_reduce(2), XmlDialect::Mccl);
  const std::string wrong = write("wrong.xml", make_wrong_ring(), XmlDialect::Mccl);
  const Outcome outcome = run({"check", wrong, ring});
  EXPECT_EQ(outcome.code, ExitCode::No);
  EXPECT_EQ(
      outcome.out,
      "wrong.xml:5:7: pairing: stream from rank 0 to rank 1 on channel 0: rank 0 lane 0 sends 2 "
      "messages, rank 1 lane 0 receives 1 message\n"
      "wrong.xml: not proven: 1 fault\n"
      "ring.xml: proven: all_reduce among 2 ranks, 2 chunks, in-place and out-of-place calls; 2 "
      "messages outstanding per stream suffice; reduces in rank order\n");
  const Outcome missing = run({"check", path("none.xml"), wrong, ring});
  EXPECT_EQ(missing.code, ExitCode::Usage);
  EXPECT_EQ(missing.err, "mccl check: none.xml: cannot be read\n");
  EXPECT_EQ(missing.out, outcome.out);
}

TEST_F(ProgramVerbs, CheckSaysWhenThereMayBeMoreFaults) {
  Program empty = make_ring_all_reduce(2);
  empty.chunk_count = 64;
  for (RankProgram& rank : empty.ranks) rank.lanes.clear();
  const std::string out = run({"check", write("empty.xml", empty, XmlDialect::Mccl)}).out;
  EXPECT_EQ(out.substr(out.rfind("empty.xml: ")), "empty.xml: not proven: at least 20 faults\n");
}

TEST_F(ProgramVerbs, CheckKnowsTheLimitsOfTargets) {
  const std::string ring = write("ring.xml", make_ring_all_reduce(2), XmlDialect::Msccl);
  EXPECT_EQ(run({"check", ring, "--target", "executor"}).code, ExitCode::Ok);
  const Outcome rccl = run({"check", ring, "--target", "rccl"});
  EXPECT_EQ(rccl.code, ExitCode::No);
  EXPECT_EQ(rccl.out,
            "ring.xml:5:19: rrcs: programs with rcs, rrs, rrc or rrcs are loaded and never run "
            "(rccl)\n"
            "ring.xml: proven, but the target refuses it: 1 fault\n");
  const Outcome unknown = run({"check", ring, "--target", "nccl"});
  EXPECT_EQ(unknown.code, ExitCode::Usage);
  EXPECT_EQ(unknown.err,
            "mccl check: --target \"nccl\": allowed are mccl, msccl, executor, rccl\n");
}

TEST_F(ProgramVerbs, CheckComparesBits) {
  const std::string ring = write("ring.xml", make_ring_all_reduce(2), XmlDialect::Mccl);
  const std::string pairs = write("pairs.xml", make_all_pairs_all_reduce(2), XmlDialect::Mccl);
  const Outcome same = run({"check", pairs, "--same", ring});
  EXPECT_EQ(same.code, ExitCode::Ok);
  EXPECT_NE(same.out.find("pairs.xml: the same bits by other steps\n"), std::string::npos);
  const std::string three = write("three.xml", make_ring_all_reduce(3), XmlDialect::Mccl);
  const Outcome other = run({"check", three, "--same", ring});
  EXPECT_EQ(other.code, ExitCode::No);
  EXPECT_NE(other.out.find("another call: all_reduce among 3, and all_reduce among 2\n"),
            std::string::npos);
}

TEST_F(ProgramVerbs, CheckAsJsonHasEverything) {
  const std::string wrong = write("wrong.xml", make_wrong_ring(), XmlDialect::Mccl);
  const Outcome outcome = run({"check", wrong, "--json"});
  EXPECT_EQ(outcome.code, ExitCode::No);
  EXPECT_EQ(outcome.out, R"({
  "verb": "check",
  "target": "mccl",
  "files": [
    {
      "file": "wrong.xml",
      "proven": false,
      "faults": [],
      "target_faults": [],
      "findings": [
        {
          "rule": "pairing",
          "in_place": false,
          "line": 5,
          "column": 7,
          "text": "stream from rank 0 to rank 1 on channel 0: rank 0 lane 0 sends 2 messages)"
                         R"(, rank 1 lane 0 receives 1 message",
          "trace": []
        }
      ],
      "name": "ring_all_reduce",
      "collective": "all_reduce",
      "ranks": 2,
      "chunks": 2,
      "claims_in_place": true,
      "claims_out_of_place": true
    }
  ]
}
)");
}

TEST_F(ProgramVerbs, ShowCountsAndWarnsOfScratchWithoutABound) {
  Program pairs = make_all_pairs_all_reduce(4);
  const std::string bounded = write("bounded.xml", pairs, XmlDialect::Mccl,
                                    {.begin_bytes = 1024,
                                     .end_bytes = 65537,
                                     .protocol = ProgramProtocol::LowLatency,
                                     .priority = 2,
                                     .topology = "rack",
                                     .version = 3});
  const Outcome outcome = run({"show", bounded});
  EXPECT_EQ(outcome.code, ExitCode::Ok);
  EXPECT_EQ(outcome.out, R"(bounded.xml: "all_pairs_all_reduce", mccl's dialect
  call         all_reduce among 4 ranks, 4 chunks, in-place and out-of-place calls
  sizes        1024 to 65536 bytes
  protocol     low_latency: here the path of small messages
  priority     2
  topology     rack
  version      3
  lanes        28, at most 7 on a rank
  channels     1
  steps        52, at most 2 in a lane: 24 send, 24 recv, 4 fold
  waits        24 on steps of other lanes
  largest step 1 chunk
  scratch      3 chunks where the larger buffer has 4: 0.750 of it, 49152 bytes for the largest call
)");
  EXPECT_EQ(outcome.err, "");
  const std::string unbounded = write("unbounded.xml", pairs, XmlDialect::Mccl);
  EXPECT_EQ(run({"show", unbounded}).err,
            "mccl show: unbounded.xml names no largest size, so its scratch has no bound either: "
            "give it max_bytes (maxBytes in MSCCL's dialect)\n");
}

TEST_F(ProgramVerbs, ShowListsARank) {
  const std::string ring = write("ring.xml", make_ring_all_reduce(2), XmlDialect::Mccl);
  EXPECT_EQ(run({"show", ring, "--rank", "1"}).out,
            "rank 1 lane 0, sends to 0, receives from 0, channel 0\n"
            "  step 0: send <- input[1] -> message to 0 on channel 0\n"
            "  step 1: recv_reduce_copy_send output[0] <- message from 0, input[0] -> message to 0 "
            "on channel 0\n"
            "  step 2: recv output[1] <- message from 0 on channel 0\n");
  const Outcome outside = run({"show", ring, "--rank", "2"});
  EXPECT_EQ(outside.code, ExitCode::Usage);
  EXPECT_EQ(outside.err, "mccl show: --rank 2: allowed are 0 to 1\n");
}

TEST_F(ProgramVerbs, ShowOfAFileAtFaultNamesTheFaults) {
  const std::string file = write("file.xml", "<algo");
  const Outcome outcome = run({"show", file});
  EXPECT_EQ(outcome.code, ExitCode::No);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, "file.xml:1:5: malformed XML: a start tag is not closed\n");
}

TEST_F(ProgramVerbs, ConvertWritesTheOtherDialectAndBack) {
  const Program ring = make_ring_all_reduce(2);
  const ProgramUse use{.begin_bytes = 8, .end_bytes = 4097, .priority = 1};
  const std::string ours = write("ours.xml", ring, XmlDialect::Mccl, use);
  EXPECT_EQ(run({"convert", ours, "-o", path("theirs.xml")}).code, ExitCode::Ok);
  EXPECT_EQ(content("theirs.xml"), write_xml(ring, XmlDialect::Msccl, use).value());
  EXPECT_EQ(run({"convert", path("theirs.xml"), "-o", path("again.xml")}).code, ExitCode::Ok);
  EXPECT_EQ(content("again.xml"), content("ours.xml"));
  EXPECT_EQ(run({"convert", ours, "-o", "-", "--to", "mccl"}).out, content("ours.xml"));
}

TEST_F(ProgramVerbs, ConvertWritesNothingThatIsNotProvenOrCannotBeSaid) {
  const std::string wrong = write("wrong.xml", make_wrong_ring(), XmlDialect::Mccl);
  const Outcome unproven = run({"convert", wrong, "-o", path("out.xml")});
  EXPECT_EQ(unproven.code, ExitCode::No);
  EXPECT_NE(unproven.err.find("mccl convert: wrong.xml is not proven, so nothing was written\n"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("out.xml")));
  const std::string fold = write("fold.xml", make_all_pairs_all_reduce(3), XmlDialect::Mccl);
  const Outcome unsaid = run({"convert", fold, "-o", path("out.xml")});
  EXPECT_EQ(unsaid.code, ExitCode::No);
  EXPECT_EQ(unsaid.err,
            "mccl convert: fold.xml: rank 0 lane 0 step 0: MSCCL has no instruction fold\n");
  EXPECT_FALSE(std::filesystem::exists(path("out.xml")));
}

TEST_F(ProgramVerbs, ConvertSaysWhatALoaderWouldNotDo) {
  Program program = make_ring_all_reduce(2);
  program.ranks[0].scratch_chunk_count = 1;
  const std::string file = write("scratch.xml", program, XmlDialect::Mccl);
  EXPECT_EQ(run({"convert", file, "-o", path("out.xml")}).err,
            "mccl convert: without max_bytes microsoft's loader never runs a program with scratch\n"
            "mccl convert: 1086 bytes in msccl's dialect\n");
}

}  // namespace
}  // namespace mccl
