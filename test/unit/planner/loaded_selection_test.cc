// Which programs from files stand in the table, at every edge of their windows and for every rule
// that does not depend on more than the size.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "planner/explain.h"
#include "planner/planner.h"
#include "planner/selection.h"

namespace mccl {
namespace {

using testing::ElementsAre;

// Loaded programs beside the catalogue. What is not said: all_reduce for four ranks, ring costs.
class Files {
 public:
  Files& add(const char* name, const ProgramUse& use, int rank_count = 4,
             Collective collective = Collective::AllReduce) {
    LoadedProgram& loaded = loaded_.emplace_back();
    loaded.program.name = name;
    loaded.program.collective = collective;
    loaded.program.ranks.resize(static_cast<size_t>(rank_count));
    loaded.use = use;
    loaded.file = std::string(name) + ".xml";
    loaded.cost = {.hops = 6,
                   .messages = 6,
                   .recv_streams = 1,
                   .bytes_moved = {6, 4},
                   .bytes_reduced = {3, 4},
                   .scratch_bytes = {0, 1},
                   .is_pipelined = true};
    algorithms_.push_back(loaded_algorithm(loaded));
    return *this;
  }

  LoadedProgram& loaded(size_t index) { return loaded_[index]; }
  void remake(size_t index) { algorithms_[index] = loaded_algorithm(loaded_[index]); }

  std::vector<const Algorithm*> list() const {
    std::vector<const Algorithm*> all(catalog().begin(), catalog().end());
    for (const Algorithm& algorithm : algorithms_) all.push_back(&algorithm);
    return all;
  }

  PlanTable table(const PlannerSettings& settings = {}, int rank_count = 4) const {
    Result<PlanTable> table =
        build_plan_table(make_topology(rank_count, rank_count), settings, list());
    EXPECT_EQ(table.status().to_string(), "ok");
    return table.is_ok() ? table.value() : PlanTable{};
  }

  // The programs of the window, in the order in which they are tried; built-ins as "*".
  std::vector<std::string> at(int64_t bytes, const PlannerSettings& settings = {},
                              Collective collective = Collective::AllReduce) const {
    const PlanTable made = table(settings);
    const PlanWindow& window = *find_window(made, collective, bytes).value();
    std::vector<PlanEntry> entries = {window.entry};
    entries.insert(entries.end(), window.others.begin(), window.others.end());
    std::vector<std::string> names;
    for (const PlanEntry& entry : entries)
      names.push_back(find_algorithm(entry.algorithm) == nullptr &&
                              entry.algorithm.find(':') == std::string::npos
                          ? entry.algorithm
                          : "*");
    return names;
  }

 private:
  std::deque<LoadedProgram> loaded_;
  std::deque<Algorithm> algorithms_;
};

TEST(LoadedSelection, AWindowBeginsAndEndsAtItsBytes) {
  for (const Collective collective : {Collective::AllReduce, Collective::AllGather,
                                      Collective::ReduceScatter, Collective::Broadcast}) {
    SCOPED_TRACE(collective_name(collective));
    Files files;
    files.add("mine", {.begin_bytes = 1000, .end_bytes = 70'000}, 4, collective);
    const auto at = [&](int64_t bytes) { return files.at(bytes, {}, collective); };
    EXPECT_THAT(at(999), ElementsAre("*"));
    EXPECT_THAT(at(1000), ElementsAre("mine", "*"));
    EXPECT_THAT(at(69'999), ElementsAre("mine", "*"));
    EXPECT_THAT(at(70'000), ElementsAre("*"));
    EXPECT_THAT(at(70'001), ElementsAre("*"));
  }
}

TEST(LoadedSelection, OpenWindowsHoldAllSizesOfTheirSide) {
  Files files;
  files.add("all", {});
  EXPECT_THAT(files.at(0), ElementsAre("all", "*"));
  EXPECT_THAT(files.at(kBytesUnlimited - 1), ElementsAre("all", "*"));
  Files large;
  large.add("large", {.begin_bytes = 1});
  EXPECT_THAT(large.at(0), ElementsAre("*"));
  EXPECT_THAT(large.at(1), ElementsAre("large", "*"));
}

TEST(LoadedSelection, BuiltInsKeepTheirBordersAroundAndBehindAWindow) {
  Files files;
  files.add("mine", {.begin_bytes = 5000, .end_bytes = 6000});
  const PlanTable with = files.table();
  const PlanTable without = Files().table();
  for (int64_t bytes = 0; bytes < int64_t{1} << 30; bytes = bytes * 5 / 4 + 1) {
    const PlanWindow& window = *find_window(with, Collective::AllReduce, bytes).value();
    const PlanEntry& built_in = window.others.empty() ? window.entry : window.others.back();
    EXPECT_EQ(built_in.algorithm,
              find_entry(without, Collective::AllReduce, bytes).value()->algorithm);
  }
}

TEST(LoadedSelection, PriorityThenNameDecideWhateverTheOrder) {
  for (const bool is_reversed : {false, true}) {
    Files files;
    const auto add_low = [&] { files.add("low", {.end_bytes = 200, .priority = 1}); };
    const auto add_high = [&] {
      files.add("high", {.begin_bytes = 100, .end_bytes = 300, .priority = 2});
    };
    const auto add_also = [&] { files.add("also_low", {.begin_bytes = 50, .priority = 1}); };
    if (is_reversed) {
      add_also(), add_high(), add_low();
    } else {
      add_low(), add_high(), add_also();
    }
    EXPECT_THAT(files.at(49), ElementsAre("low", "*"));
    EXPECT_THAT(files.at(50), ElementsAre("also_low", "low", "*"));
    EXPECT_THAT(files.at(100), ElementsAre("high", "also_low", "low", "*"));
    EXPECT_THAT(files.at(200), ElementsAre("high", "also_low", "*"));
    EXPECT_THAT(files.at(300), ElementsAre("also_low", "*"));
  }
}

struct RuleCase {
  const char* rule;  // "": admitted
  PlannerSettings settings;
  const char* reason;
  const char* remedy;
};

class LoadedRule : public testing::TestWithParam<RuleCase> {};

TEST_P(LoadedRule, KeepsAProgramOutOrLetsItIn) {
  Files files;
  files.add("mine", {.protocol = ProgramProtocol::LowLatency, .topology = "lab"});
  const RuleCase& row = GetParam();
  const PlanTable table = files.table(row.settings);
  const std::vector<LoadedRefusal> refusals =
      list_refusals(table, Collective::AllReduce, 64, files.list());
  const bool serves = find_entry(table, Collective::AllReduce, 64).value()->algorithm == "mine";
  EXPECT_EQ(serves, std::string(row.rule).empty());
  ASSERT_EQ(refusals.size(), serves ? 0u : 1u);
  if (serves) return;
  EXPECT_EQ(refusals[0].rule, row.rule);
  EXPECT_EQ(refusals[0].reason, row.reason);
  EXPECT_EQ(refusals[0].remedy, row.remedy);
}

PlannerSettings in_lab(const char* algo, const char* protocols = "", bool is_canonical = false) {
  return {
      .algo = algo, .is_canonical = is_canonical, .protocols = protocols, .topology_name = "lab"};
}

INSTANTIATE_TEST_SUITE_P(
    LoadedSelection, LoadedRule,
    testing::Values(
        RuleCase{"", in_lab(""), "", ""},
        RuleCase{"topology",
                 {},
                 "it is for topology \"lab\", and MCCL_TOPOLOGY names none",
                 "MCCL_TOPOLOGY=lab"},
        RuleCase{"topology",
                 {.topology_name = "hall"},
                 "it is for topology \"lab\", this one is \"hall\"",
                 "MCCL_TOPOLOGY=lab"},
        RuleCase{"protocol", in_lab("", "simple"), "its protocol is LL, MCCL_PROTO is simple",
                 "a MCCL_PROTO that admits LL"},
        RuleCase{"protocol", in_lab("", "^ll"), "its protocol is LL, MCCL_PROTO is ^ll",
                 "a MCCL_PROTO that admits LL"},
        RuleCase{"", in_lab("", "simple,ll"), "", ""}, RuleCase{"", in_lab("", "^simple"), "", ""},
        RuleCase{"canonical", in_lab("", "", true),
                 "MCCL_DETERMINISTIC=canonical, and it does not reduce in rank order",
                 "unset MCCL_DETERMINISTIC"},
        RuleCase{"not_listed", in_lab("ring,tree"), "MCCL_ALGO=ring,tree names others",
                 "MCCL_ALGO=ring,tree,mine"},
        RuleCase{"", in_lab("msccl,ring,tree"), "", ""}, RuleCase{"", in_lab("mine"), "", ""},
        RuleCase{"excluded", in_lab("^msccl"), "MCCL_ALGO=^msccl excludes it",
                 "take its name out of MCCL_ALGO"},
        RuleCase{"", in_lab("all_gather_ring"), "", ""}));

TEST(LoadedSelection, AProgramThatReducesInRankOrderIsCanonical) {
  Files files;
  files.add("mine", {});
  files.loaded(0).reduces_in_rank_order = true;
  files.remake(0);
  EXPECT_THAT(files.at(64, {.is_canonical = true}), ElementsAre("mine", "*"));
}

TEST(LoadedSelection, ServesItsOwnRankCountAlone) {
  Files files;
  files.add("mine", {}, 8);
  EXPECT_THAT(files.at(64), ElementsAre("*"));
  const std::vector<LoadedRefusal> refusals =
      list_refusals(files.table(), Collective::AllReduce, 64, files.list());
  ASSERT_EQ(refusals.size(), 1u);
  EXPECT_EQ(refusals[0].rule, "rank_count");
  EXPECT_EQ(refusals[0].reason, "it is for 8 ranks, the communicator has 4");
  EXPECT_EQ(refusals[0].remedy, "a communicator of 8 ranks");
}

TEST(LoadedSelection, ANamedProgramLeavesTheOtherSizesToTheBuiltIns) {
  Files files;
  files.add("mine", {.end_bytes = 100});
  EXPECT_THAT(files.at(99, {.algo = "mine"}), ElementsAre("mine", "*"));
  EXPECT_THAT(files.at(100, {.algo = "mine"}), ElementsAre("*"));
  const PlanTable table = files.table({.algo = "mine"});
  EXPECT_THAT(find_entry(table, Collective::AllReduce, 100).value()->reason,
              testing::HasSubstr("; MCCL_ALGO=mine names programs that do not serve it"));
}

TEST(LoadedSelection, TheTableIsReadBackByWhoeverHasTheSamePrograms) {
  Files files;
  files.add("mine", {.begin_bytes = 100, .end_bytes = 5000, .priority = 1}).add("other", {});
  PlannerSettings settings = in_lab("", "^ll128");
  settings.is_fit_strict = true;
  const PlanTable table = files.table(settings);
  const std::string text = write_plan_table(table);
  const Result<PlanTable> read = parse_plan_table(text, files.list());
  ASSERT_EQ(read.status().to_string(), "ok");
  EXPECT_EQ(read.value(), table);
  EXPECT_THAT(parse_plan_table(text).status().message(),
              testing::HasSubstr("this build has no program \"other\""));
}

TEST(LoadedSelection, ExplainNamesTheRuleOfTheCall) {
  Files files;
  files.add("mine", {.begin_bytes = 64});
  files.loaded(0).program.chunk_count = 4;
  files.loaded(0).program.out_of_place = false;
  files.remake(0);
  PlannerSettings settings;
  settings.is_fit_strict = true;
  const PlanTable table = files.table(settings);
  const auto about_mine = [&](int64_t bytes, const CallFacts& call) {
    for (const CandidateExplanation& candidate :
         explain(table, Collective::AllReduce, bytes, files.list(), call).candidates)
      if (candidate.algorithm == "mine")
        return candidate.is_chosen ? candidate.verdict
                                   : candidate.verdict + " | " + candidate.remedy;
    return std::string("not there");
  };
  CallFacts call{.block_count = 16, .is_in_place = true};
  EXPECT_EQ(about_mine(64, call), "loaded from mine.xml");
  EXPECT_EQ(about_mine(63, call), "its window is 64 bytes or more | calls of 64 bytes or more");
  call.is_in_place = false;
  EXPECT_EQ(about_mine(64, call),
            "MCCL_ALGO_FIT=strict, it claims in-place calls only, and the call is out of place | "
            "MCCL_ALGO_FIT=auto, or an in-place call");
  call = {.block_count = 17, .is_in_place = true};
  EXPECT_EQ(about_mine(68, call),
            "MCCL_ALGO_FIT=strict, and a block of 17 elements does not divide into 4 chunks | "
            "MCCL_ALGO_FIT=auto, or 20 elements");
}

}  // namespace
}  // namespace mccl
