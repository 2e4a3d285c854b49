// Two processes, over TCP on loopback: what is said, never how long it took.
#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/local_ranks.h"
#include "perf/perf_verb.h"
#include "tune/tune_verb.h"
#include "verb/command.h"

namespace mccl {
namespace {

struct Ran {
  ExitCode code = ExitCode::No;
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

Ran run(std::vector<std::string> arguments, const Verb& verb = kPerfVerb) {
  std::ostringstream out;
  std::ostringstream err;
  Terminal terminal{.out = out, .err = err};
  const std::array kVerbs = {&verb};
  arguments.insert(arguments.begin(), std::string(verb.name));
  const ExitCode code =
      run_command({.verbs = kVerbs, .version = "0", .run_program = {}}, arguments, terminal);
  return {code, out.str(), err.str()};
}

TEST(PerfRun, MeasuresAndChecksEveryCollective) {
  for (const char* const collective :
       {"all_reduce", "all_gather_perf", "broadcast", "reduce_scatter", "reduce", "gather",
        "scatter", "alltoall"}) {
    const Ran ran = run({collective, "-b", "40000", "-e", "40000", "-n", "2", "--json"});
    ASSERT_EQ(ran.code, ExitCode::Ok) << collective << ran.err;
    const auto json = ran.json();
    EXPECT_EQ(json["ranks"], 2);
    ASSERT_EQ(json["results"].size(), 1u);
    const auto& result = json["results"][0];
    EXPECT_EQ(result["out_of_place"]["nwrong"], 0) << collective;
    EXPECT_EQ(result["out_of_place"]["programs"][0]["calls"], 2) << collective;
    EXPECT_EQ(result.contains("in_place"), std::string(collective) != "alltoall");
    if (result.contains("in_place")) {
      EXPECT_EQ(result["in_place"]["nwrong"], 0) << collective;
    }
  }
}

TEST(PerfRun, ChecksEveryTypeAndOperation) {
  const Ran ran = run({"all_reduce", "--ranks", "3", "-b", "4K", "-e", "4K", "-n", "1", "-d", "all",
                       "-o", "all", "--json"});
  ASSERT_EQ(ran.code, ExitCode::Ok) << ran.out << ran.err;
  // 10 types have all five, float8 is not reduced.
  EXPECT_EQ(ran.json()["results"].size(), 50u);
  EXPECT_EQ(ran.json()["out_of_bounds"]["count"], 0);
}

TEST(PerfRun, AcceptsACommandLineOfNcclTests) {
  const Ran ran = run({"all_reduce_perf",
                       "-b",
                       "64",
                       "-e",
                       "256",
                       "-f",
                       "2",
                       "-g",
                       "1",
                       "-t",
                       "1",
                       "-c",
                       "1",
                       "-n",
                       "3",
                       "-w",
                       "2",
                       "-m",
                       "2",
                       "-o",
                       "sum",
                       "-d",
                       "float",
                       "-r",
                       "0",
                       "-a",
                       "1",
                       "-z",
                       "0",
                       "-N",
                       "2",
                       "-p",
                       "0",
                       "-G",
                       "0",
                       "-y",
                       "0",
                       "-T",
                       "100"});
  ASSERT_EQ(ran.code, ExitCode::Ok) << ran.err;
  EXPECT_EQ(ran.err,
            "mccl perf: -p 0 -z 0 -y 0 -G 0: accepted and without effect, there is nothing of that "
            "kind here\n");
  // Two cycles of three sizes; parsers look for lines that begin with blanks and a digit.
  std::istringstream lines(ran.out);
  int rows = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream fields(line);
    int count = 0;
    for (std::string field; fields >> field;) ++count;
    EXPECT_EQ(count, 13) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 6);
  EXPECT_NE(ran.out.find("# Out of bounds values : 0 OK\n"), std::string::npos);
}

TEST(PerfRun, LetsContendersTakeTurnsAndNamesWhatServed) {
  const Ran ran = run({"all_reduce", "-b", "4K", "-e", "4K", "-n", "4", "--algo", "ring", "--algo",
                       "recursive_doubling", "--json"});
  ASSERT_EQ(ran.code, ExitCode::Ok) << ran.err;
  const auto json = ran.json();
  ASSERT_EQ(json["results"].size(), 2u);
  EXPECT_EQ(json["results"][0]["in_place"]["programs"][0]["program"], "all_reduce_ring");
  EXPECT_EQ(json["results"][0]["in_place"]["programs"][0]["calls"], 4);
  EXPECT_EQ(json["results"][1]["in_place"]["programs"][0]["program"],
            "all_reduce_recursive_doubling");
  EXPECT_EQ(json["ratios"][0]["in_place"]["rounds"], 4);
}

TEST(PerfRun, SaysNoWhenANamedProgramServedNoCall) {
  // A list restricts only collectives that it names a program of.
  const Ran ran =
      run({"all_gather", "-b", "4K", "-e", "4K", "-n", "1", "--algo", "all_reduce_all_pairs"});
  EXPECT_EQ(ran.code, ExitCode::No) << ran.out << ran.err;
  EXPECT_NE(ran.err.find("mccl perf: --algo all_reduce_all_pairs served no call"),
            std::string::npos)
      << ran.err;
}

TEST(PerfRun, RefusesBeforeAnythingRuns) {
  EXPECT_EQ(run({"all_reduce", "-b", "x"}).code, ExitCode::Usage);
  EXPECT_EQ(run({"all_reduce", "--ranks", "65"}).code, ExitCode::Usage);
  const Ran root = run({"broadcast", "-b", "64", "-e", "64", "-r", "2"});
  EXPECT_EQ(root.code, ExitCode::Usage);
  EXPECT_EQ(root.err, "mccl perf: -r 2: there are ranks 0 to 1\n");
}

// Which side is faster where is this machine's business; that a border or none is told is not.
TEST(TuneRun, SweepsTwoProgramsOnLiveRanks) {
  const Ran ran = run({"all_reduce", "--algo", "ring", "--algo", "recursive_doubling", "-b", "1K",
                       "-e", "16K", "-n", "2", "--json"},
                      kTuneVerb);
  const auto json = ran.json();
  EXPECT_EQ(json["kind"], "measured");
  ASSERT_GE(json["sizes"].size(), 5u);
  EXPECT_EQ(json["sizes"][0]["bytes"], 1024);
  EXPECT_EQ(json["sizes"].back()["bytes"], 16'384);
  EXPECT_EQ(ran.code, json["crossover"].is_null() ? ExitCode::No : ExitCode::Ok) << ran.err;
  // With a border the sizes around it follow.
  if (!json["crossover"].is_null()) {
    EXPECT_GT(json["sizes"].size(), 5u);
  }
}

TEST(TuneRun, RefusesWithWhatIsNeeded) {
  EXPECT_EQ(run({"all_reduce", "--algo", "ring"}, kTuneVerb).err,
            "mccl tune: --algo is needed twice: which two programs?\n");
  EXPECT_EQ(run({"all_reduce", "--algo", "ring", "--algo", "tree", "-b", "64"}, kTuneVerb).err,
            "mccl tune: -b 64 -e 16M: -b is at least 128 bytes, and -e four times that\n");
  EXPECT_EQ(
      run({"all_reduce", "--algo", "ring", "--algo", "tree", "--out", "x.xml"}, kTuneVerb).err,
      "mccl tune: --out is where the file of --window goes: give both\n");
}

TEST(LocalRanks, TellTheErrorOfTheFirstThatFails) {
  auto ranks = LocalRanks::start(3, [](int rank, int port, const std::function<bool()>&) {
    if (port <= 0) return Status(StatusCode::Internal, "no port");
    return rank == 2 ? Status(StatusCode::Mismatch, "of its own") : Status::ok();
  });
  ASSERT_TRUE(ranks.is_ok()) << ranks.status().message();
  const Status status = ranks.value()->finish();
  EXPECT_EQ(status.code(), StatusCode::Mismatch);
  EXPECT_EQ(status.message(), "rank 2: of its own");
  EXPECT_TRUE(ranks.value()->has_failed());
}

}  // namespace
}  // namespace mccl
