// Laws L7 and L10: how ranks meet, and what is said when they do not.
#include "comm/bootstrap.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "meeting.h"

namespace mccl {
namespace {

// The Status that both ranks of two end with.
void expect_both(Meeting& meeting, const RankRecord& first, const RankRecord& second,
                 StatusCode code, const std::string& text) {
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(first, 5).is_ok());
  ASSERT_TRUE(one.publish(second, 0).is_ok());
  const Status of_zero = zero.finish(&Meeting::decide).status();
  const Status of_one = one.finish(&Meeting::decide).status();
  EXPECT_EQ(of_zero.code(), code);
  EXPECT_EQ(of_one.code(), code);
  EXPECT_EQ(of_zero.message(), text);
  EXPECT_EQ(of_one.message(), text);
}

// Containers and network namespaces are hosts of their own, and share the cores.
TEST(Bootstrap, CountsTheRanksOnTheCoresOfARank) {
  const std::vector<RankRecord> ranks = {record_of(0), record_of(1), record_of(2)};
  EXPECT_EQ(count_core_sharers(ranks, 0), 2);
  EXPECT_EQ(count_core_sharers(ranks, 1), 2);
  EXPECT_EQ(count_core_sharers(ranks, 2), 1);
}

TEST(Bootstrap, GivesEveryRankTheTableOfRankZero) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  const Result<Agreement> first = zero.finish(&Meeting::decide);
  ASSERT_EQ(first.status().to_string(), "ok");
  int decisions = 0;
  const Result<Agreement> second = one.finish([&](const std::vector<RankRecord>& ranks) {
    ++decisions;
    return build_plan_table({static_cast<int>(ranks.size()), 2, {0, 1}},
                            planner_settings(Config{}));
  });
  ASSERT_EQ(second.status().to_string(), "ok");
  EXPECT_EQ(decisions, 0);
  EXPECT_EQ(second.value().communicator, 5U);
  EXPECT_TRUE(second.value().table == first.value().table);
  EXPECT_TRUE(second.value().table.is_canonical);
  ASSERT_EQ(second.value().ranks.size(), 2U);
  EXPECT_EQ(second.value().ranks[0].peer.process_id, 100U);
  EXPECT_TRUE(second.value().ranks == first.value().ranks);
}

TEST(Bootstrap, NamesTheRanksThatDidNotCome) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 4), two = meeting.bootstrap(2, 4);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(two.publish(record_of(2), 0).is_ok());
  const Status status = zero.finish(&Meeting::decide).status();
  EXPECT_EQ(status.code(), StatusCode::Timeout);
  EXPECT_EQ(
      status.message(),
      "Timed out after 0.0 s waiting for ranks 1, 3 of 4 of world; were they started, and do they "
      "reach the store?");
}

TEST(Bootstrap, SaysThatRankZeroIsTheOneThatIsMissed) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  EXPECT_EQ(one.finish(&Meeting::decide).status().message(),
            "Timed out after 0.0 s: rank 0 of world has come and does not say who is missing; is "
            "it stopped?");
}

TEST(Bootstrap, RefusesDifferentSettingsAndShowsBoth) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.settings = "MCCL_ALGO=all_reduce_ring\nMCCL_PARK_LIMIT=268435456\n";
  expect_both(meeting, record_of(0), other, StatusCode::Mismatch,
              "the ranks have different values of MCCL_ALGO: \"\" on rank 0 (host host0), "
              "\"all_reduce_ring\" on rank 1 (host host1); it must be the same on all ranks");
}

TEST(Bootstrap, CarriesTheSwitchOfEveryRank) {
  Meeting meeting;
  RankRecord first = record_of(0), second = record_of(1);
  first.switch_name = "rack 1";
  second.switch_name = "rack-2";
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(first, 5).is_ok());
  ASSERT_TRUE(one.publish(second, 0).is_ok());
  ASSERT_EQ(zero.finish(&Meeting::decide).status().to_string(), "ok");
  const Result<Agreement> agreement = one.finish(&Meeting::decide);
  ASSERT_EQ(agreement.status().to_string(), "ok");
  EXPECT_EQ(agreement.value().ranks[0].switch_name, "rack 1");
  EXPECT_EQ(agreement.value().ranks[1].switch_name, "rack-2");
}

TEST(Bootstrap, RefusesRanksOfWhichOnlySomeNameTheirSwitch) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.switch_name = "rack-2";
  expect_both(meeting, record_of(0), other, StatusCode::Mismatch,
              "only some ranks have MCCL_SWITCH: \"\" on rank 0 (host host0), \"rack-2\" on rank 1 "
              "(host host1); name the switch on all ranks or on none");
}

TEST(Bootstrap, RefusesDifferentVersions) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.version = "0.2.0";
  expect_both(
      meeting, record_of(0), other, StatusCode::Mismatch,
      "the ranks run different versions of mccl: \"0.1.0\" on rank 0 (host host0), \"0.2.0\" on "
      "rank 1 (host host1); install the same");
}

TEST(Bootstrap, TellsEveryRankWhyThereIsNoTable) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  const auto refuse = [](const std::vector<RankRecord>&) -> Result<PlanTable> {
    return Status(StatusCode::Unsupported, "no program");
  };
  EXPECT_EQ(zero.finish(refuse).status().to_string(), "unsupported: no program");
  EXPECT_EQ(one.finish(refuse).status().to_string(), "unsupported: no program");
}

TEST(Bootstrap, NamesEveryDifferenceOnce) {
  std::vector<RankRecord> ranks = {record_of(0), record_of(1), record_of(2)};
  ranks[1].version = ranks[2].version = "0.2.0";
  ranks[2].settings = "MCCL_ALGO=\nMCCL_PARK_LIMIT=1\n";
  EXPECT_EQ(
      check_records(ranks).message(),
      "the ranks run different versions of mccl: \"0.1.0\" on rank 0 (host host0), \"0.2.0\" on "
      "ranks 1, 2 (host host1, ...); install the same; the ranks have different values of "
      "MCCL_PARK_LIMIT: \"268435456\" on ranks 0, 1 (host host0, ...), \"1\" on rank 2 (host "
      "host2); it must be the same on all ranks");
}

TEST(Bootstrap, NamesTheRankWithAnotherSecret) {
  std::vector<RankRecord> ranks = {record_of(0), record_of(1), record_of(2)};
  ranks[0].secret_check = ranks[2].secret_check = "0a0b0c0d";
  EXPECT_EQ(check_records(ranks).message(),
            "the ranks have different values of MCCL_SECRET: \"one with check 0a0b0c0d\" on ranks "
            "0, 2 (host host0, ...), \"none\" on rank 1 (host host1); it must be the same on all "
            "ranks");
}

TEST(Bootstrap, NamesRanksFilesAndDigestsOfDifferentPrograms) {
  std::vector<RankRecord> ranks = {record_of(0), record_of(1), record_of(2)};
  for (RankRecord& record : ranks) record.programs = std::string(64, 'a');
  ranks[0].program_files = {"a.xml", "b.xml"};
  ranks[1].program_files = {"elsewhere/a.xml", "b.xml"};  // the same programs
  ranks[2].program_files = {"a.xml", "b.xml"};
  EXPECT_EQ(check_records(ranks).message(), "");
  ranks[1].programs = std::string(64, 'b');
  ranks[2].programs = "";
  EXPECT_EQ(check_records(ranks).message(),
            "the ranks have loaded different programs: \"aaaaaaaaaaaaaaaa (a.xml, b.xml)\" on rank "
            "0 (host host0), \"bbbbbbbbbbbbbbbb (elsewhere/a.xml, b.xml)\" on rank 1 (host host1), "
            "\"none\" on rank 2 (host host2); MSCCL_XML_FILES, MSCCL_CONFIG and MCCL_ALGO_DIR name "
            "the same programs on all ranks");
}

TEST(Bootstrap, TellsOfAProgramThatOneRankCannotUse) {
  std::vector<RankRecord> ranks = {record_of(0), record_of(1), record_of(2)};
  ranks[1].program_fault = "a.xml:3:4: bad";
  EXPECT_EQ(check_records(ranks).message(), "rank 1 (host host1, pid " +
                                                std::to_string(ranks[1].pid) +
                                                ") cannot use its programs: a.xml:3:4: bad");
  ranks[2].program_fault = ranks[1].program_fault;
  EXPECT_EQ(check_records(ranks).message(), "rank 1 (host host1, pid " +
                                                std::to_string(ranks[1].pid) +
                                                ") and others cannot use their programs: "
                                                "a.xml:3:4: bad");
  ranks[0].program_fault = ranks[1].program_fault;
  EXPECT_EQ(check_records(ranks).message(), "the ranks cannot use their programs: a.xml:3:4: bad");
}

TEST(Bootstrap, GivesNoticeOfWhatNeedNotBeEqual) {
  Meeting meeting;
  RankRecord first = record_of(0), second = record_of(1);
  first.manifest = {{"torch", "2.13.0"}, {"processor", "arm64"}};
  second.manifest = {{"torch", "2.12.1"}, {"processor", "arm64"}};
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(first, 5).is_ok());
  ASSERT_TRUE(one.publish(second, 0).is_ok());
  ASSERT_EQ(zero.finish(&Meeting::decide).status().to_string(), "ok");
  EXPECT_EQ(
      meeting.host.notices,
      (std::vector<std::string>{"torch differs: \"2.13.0\" on rank 0 (host host0), \"2.12.1\" "
                                "on rank 1 (host host1)"}));
}

TEST(Bootstrap, RefusesGroupsOfDifferentMembers) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2, "group 1 (global ranks 0, 1)");
  Bootstrap one = meeting.bootstrap(1, 3, "group 1 (global ranks 0, 1, 2)");
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  const std::string text =
      "mismatch: the ranks form different groups: \"group 1 (global ranks 0, 1) of 2 ranks\" on "
      "rank "
      "0 (host host0), \"group 1 (global ranks 0, 1, 2) of 3 ranks\" on rank 1 (host host1); all "
      "members of a group name the same ranks";
  EXPECT_EQ(zero.finish(&Meeting::decide).status().to_string(), text);
  EXPECT_EQ(one.finish(&Meeting::decide).status().to_string(), text);
}

TEST(Bootstrap, ConnectsToTheParentInTheControlTree) {
  Meeting meeting;
  std::vector<Bootstrap> ranks;
  for (int rank = 0; rank < 10; ++rank) {
    ranks.push_back(meeting.bootstrap(rank, 10));
    ASSERT_TRUE(ranks.back().publish(record_of(rank), 5).is_ok());
  }
  for (Bootstrap& rank : ranks) ASSERT_EQ(rank.finish(&Meeting::decide).status().to_string(), "ok");
  EXPECT_EQ(meeting.host.connected,
            (std::vector<uint64_t>{100, 100, 100, 100, 100, 100, 100, 100, 101}));
}

TEST(Bootstrap, EveryRankHearsOfTheOneThatWasLost) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 3), one = meeting.bootstrap(1, 3);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  meeting.host.lost[101] = Status(StatusCode::PeerLost, "closed by the peer");
  const std::string text =
      "peer lost: lost rank 1 (host host1, pid 0) during the rendezvous of world: closed by the "
      "peer";
  const Status of_zero = zero.finish(&Meeting::decide).status();
  EXPECT_EQ(of_zero.to_string(), text);
  EXPECT_EQ(of_zero.peer(), 1);
  meeting.host.lost.clear();
  const Status of_one = one.finish(&Meeting::decide).status();
  EXPECT_EQ(of_one.to_string(), text);
  EXPECT_EQ(of_one.peer(), 1);
}

TEST(Bootstrap, ACommunicatorThatFailsMeanwhileEndsIt) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  meeting.host.failed = Status(StatusCode::PeerLost, "lost rank 1");
  EXPECT_EQ(zero.finish(&Meeting::decide).status().to_string(), "peer lost: lost rank 1");
}

// A store keeps the keys of what was before: an agreement, an error, a meeting without a blob.
TEST(Bootstrap, DoesNotJoinAMeetingThatIsOver) {
  Meeting meeting;
  for (const bool has_failed : {false, true}) {
    Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
    RankRecord other = record_of(1);
    if (has_failed) other.version = "0.2.0";
    ASSERT_TRUE(zero.publish(record_of(0), 5 + (has_failed ? 1 : 0)).is_ok());
    ASSERT_TRUE(one.publish(other, 0).is_ok());
    EXPECT_EQ(zero.finish(&Meeting::decide).is_ok(), !has_failed);
    EXPECT_EQ(one.finish(&Meeting::decide).is_ok(), !has_failed);
    // Rank 1 comes back before rank 0 has called the next meeting.
    Bootstrap early = meeting.bootstrap(1, 2);
    EXPECT_EQ(
        early.publish(record_of(1), 0).to_string(),
        "timeout: Timed out after 0.0 s waiting for rank 0 of world; was it started, and does "
        "it reach the store?");
  }
}

// Rank 0 is alone in its group and has formed it; this rank names two members.
TEST(Bootstrap, SaysThatALivingLeaderFormedAnotherGroup) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 1, "group 1 (global ranks 0)");
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(zero.finish(&Meeting::decide).is_ok());
  const SystemClock clock;
  Bootstrap one(*meeting.store, clock, meeting.host,
                {"world", "group 1 (global ranks 0, 1)", 1, 2, 30 * kNsPerSecond, {}});
  meeting.host.alive = 100;
  EXPECT_EQ(one.publish(record_of(1), 0).to_string(),
            "mismatch: rank 0 formed group 1 (global ranks 0) of 1 ranks, rank 1 expects group 1 "
            "(global ranks 0, 1) of 2 ranks; all members of a group name the same ranks");
}

// Two of three have lost the third and form a group of two; rank 0 has not left the old one yet.
TEST(Bootstrap, WaitsForALeaderThatIsStillInAnEarlierGroupOfBoth) {
  Meeting meeting;
  std::vector<RankRecord> records = {record_of(0), record_of(1), record_of(2)};
  for (RankRecord& record : records) record.pid = static_cast<int64_t>(record.peer.process_id);
  Bootstrap zero = meeting.bootstrap(0, 3), one = meeting.bootstrap(1, 3),
            two = meeting.bootstrap(2, 3);
  ASSERT_TRUE(zero.publish(records[0], 5).is_ok());
  ASSERT_TRUE(one.publish(records[1], 0).is_ok());
  ASSERT_TRUE(two.publish(records[2], 0).is_ok());
  ASSERT_TRUE(zero.finish(&Meeting::decide).is_ok());
  meeting.host.alive = 100;
  const SystemClock clock;
  Bootstrap next(*meeting.store, clock, meeting.host, {"world", "world", 1, 2, kNsPerSecond, {}});
  records[2].peer.process_id = 777;  // of another endpoint
  EXPECT_EQ(next.publish(records[2], 0).to_string(),
            "timeout: Timed out after 1.0 s waiting for rank 0 of world; was it started, and does "
            "it reach the store?");
}

TEST(Bootstrap, GoesOverToTheMeetingThatReplacesAnother) {
  Meeting meeting;
  // A leader that died before it had everybody.
  Bootstrap dead = meeting.bootstrap(0, 2);
  ASSERT_TRUE(dead.publish(record_of(0), 5).is_ok());
  Bootstrap one(*meeting.store, meeting.clock, meeting.host,
                {"world", "world", 1, 2, kNsPerSecond, {}});
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  RankRecord again = record_of(0);
  again.peer.process_id = 200;
  Bootstrap zero(*meeting.store, meeting.clock, meeting.host,
                 {"world", "world", 0, 2, kNsPerSecond, {}});
  ASSERT_TRUE(zero.publish(again, 6).is_ok());
  std::thread leader([&] { EXPECT_EQ(zero.finish(&Meeting::decide).status().to_string(), "ok"); });
  const Result<Agreement> agreement = one.finish(&Meeting::decide);
  leader.join();
  ASSERT_EQ(agreement.status().to_string(), "ok");
  EXPECT_EQ(agreement.value().communicator, 6U);
}

TEST(Bootstrap, TwoLeadersAreAMismatch) {
  Meeting meeting;
  Bootstrap first = meeting.bootstrap(0, 2), second = meeting.bootstrap(0, 2);
  ASSERT_TRUE(first.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(second.publish(record_of(0), 6).is_ok());
  EXPECT_EQ(
      first.finish(&Meeting::decide).status().to_string(),
      "mismatch: two processes lead world: this one (pid 0, tcp://10.0.0.1:1) and another; two "
      "have rank 0, or the ranks name different members for the group");
}

TEST(Bootstrap, NoticesAnotherProcessInItsPlace) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  Bootstrap late = meeting.bootstrap(1, 2);
  RankRecord other = record_of(1);
  other.peer.process_id = 999;
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  ASSERT_TRUE(late.publish(other, 0).is_ok());
  ASSERT_TRUE(zero.finish(&Meeting::decide).is_ok());
  EXPECT_EQ(one.finish(&Meeting::decide).status().message(),
            "rank 0 holds another process as rank 1 of world: two processes have the same rank, or "
            "one has been started again meanwhile");
}

TEST(Bootstrap, EndsWhenInterruptedAndTellsTheOthers) {
  Meeting meeting;
  Bootstrap zero(*meeting.store, meeting.clock, meeting.host,
                 {"world", "world", 0, 2, kNever / 2, [] { return true; }});
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  Bootstrap one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  Bootstrap none = meeting.bootstrap(2, 3);
  EXPECT_EQ(zero.finish([](const std::vector<RankRecord>&) -> Result<PlanTable> {
                  return Status(StatusCode::Aborted, "the rendezvous was interrupted");
                })
                .status()
                .to_string(),
            "aborted: the rendezvous was interrupted");
  EXPECT_EQ(one.finish(&Meeting::decide).status().to_string(),
            "aborted: rank 0 (host host0, pid 0): the rendezvous was interrupted");
}

}  // namespace
}  // namespace mccl
