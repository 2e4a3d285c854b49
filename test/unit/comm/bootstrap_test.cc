// Laws L7 and L10: how ranks meet, and what is said when they do not.
#include "comm/bootstrap.h"

#include <gtest/gtest.h>

#include <memory>

#include "planner/planner.h"

namespace mccl {
namespace {

RankRecord record_of(int rank) {
  RankRecord record;
  record.peer = {static_cast<uint64_t>(rank) + 100, 7, "tcp://10.0.0.1:1"};
  record.host_name = "host" + std::to_string(rank);
  record.host_id = record.host_name;
  record.kernel_id = "kernel" + std::to_string(rank / 2);
  record.settings = "MCCL_ALGO=\nMCCL_PARK_LIMIT=268435456\n";
  record.version = "0.1.0";
  return record;
}

struct Meeting {
  Bootstrap bootstrap(int rank, int rank_count) {
    return Bootstrap(*store, clock, {"world", rank, rank_count, 0, {}});
  }
  // The table of rank 0 in these tests.
  static Result<PlanTable> decide(const std::vector<RankRecord>& ranks) {
    const int rank_count = static_cast<int>(ranks.size());
    Config config;
    config.is_canonical_order = true;
    return build_plan_table({rank_count, 1, std::vector<int>(ranks.size(), 0)},
                            planner_settings(config));
  }

  std::shared_ptr<Store> store = make_memory_store();
  ManualClock clock;
};

// The Status that both ranks of two end with.
void expect_both(Meeting& meeting, const RankRecord& first, const RankRecord& second,
                 StatusCode code, const std::string& text) {
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(first).is_ok());
  ASSERT_TRUE(one.publish(second).is_ok());
  const Status of_zero = zero.finish(first, 5, &Meeting::decide).status();
  const Status of_one = one.finish(second, 0, &Meeting::decide).status();
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
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  ASSERT_TRUE(one.publish(record_of(1)).is_ok());
  const Result<Agreement> first = zero.finish(record_of(0), 5, &Meeting::decide);
  ASSERT_EQ(first.status().to_string(), "ok");
  int decisions = 0;
  const Result<Agreement> second =
      one.finish(record_of(1), 6, [&](const std::vector<RankRecord>& ranks) {
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
  EXPECT_TRUE(second.value().ranks[0] == record_of(0));
}

TEST(Bootstrap, NamesTheRanksThatDidNotCome) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 4), two = meeting.bootstrap(2, 4);
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  ASSERT_TRUE(two.publish(record_of(2)).is_ok());
  const Status status = zero.finish(record_of(0), 5, &Meeting::decide).status();
  EXPECT_EQ(status.code(), StatusCode::Timeout);
  EXPECT_EQ(
      status.message(),
      "Timed out after 0.0 s waiting for the ranks of \"world\": missing 1, 3 of 4; were they "
      "started, and do they reach the store?");
}

TEST(Bootstrap, SaysThatRankZeroIsTheOneThatIsMissed) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  ASSERT_TRUE(one.publish(record_of(1)).is_ok());
  EXPECT_EQ(
      one.finish(record_of(1), 5, &Meeting::decide).status().message(),
      "Timed out after 0.0 s: rank 0 has not answered although all 2 ranks of \"world\" came");
}

TEST(Bootstrap, RefusesDifferentSettingsAndShowsBoth) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.settings = "MCCL_ALGO=all_reduce_ring\nMCCL_PARK_LIMIT=268435456\n";
  expect_both(meeting, record_of(0), other, StatusCode::Mismatch,
              "rank 0 and rank 1 (host host1) have different settings: \"MCCL_ALGO=\" against "
              "\"MCCL_ALGO=all_reduce_ring\"; settings of scope job must agree");
}

TEST(Bootstrap, CarriesTheSwitchOfEveryRank) {
  Meeting meeting;
  RankRecord first = record_of(0), second = record_of(1);
  first.switch_name = "rack 1";
  second.switch_name = "rack-2";
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(first).is_ok());
  ASSERT_TRUE(one.publish(second).is_ok());
  ASSERT_EQ(zero.finish(first, 5, &Meeting::decide).status().to_string(), "ok");
  const Result<Agreement> agreement = one.finish(second, 0, &Meeting::decide);
  ASSERT_EQ(agreement.status().to_string(), "ok");
  EXPECT_EQ(agreement.value().ranks[0].switch_name, "rack 1");
  EXPECT_EQ(agreement.value().ranks[1].switch_name, "rack-2");
}

TEST(Bootstrap, RefusesRanksOfWhichOnlySomeNameTheirSwitch) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.switch_name = "rack-2";
  expect_both(meeting, record_of(0), other, StatusCode::Mismatch,
              "rank 0 (host host0) has MCCL_SWITCH=\"\", rank 1 (host host1) has \"rack-2\"; name "
              "the switch on all ranks or on none");
}

TEST(Bootstrap, RefusesDifferentVersions) {
  Meeting meeting;
  RankRecord other = record_of(1);
  other.version = "0.2.0";
  expect_both(meeting, record_of(0), other, StatusCode::Mismatch,
              "rank 0 runs mccl 0.1.0, rank 1 (host host1) runs 0.2.0; install the same");
}

TEST(Bootstrap, TellsEveryRankWhyThereIsNoTable) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  ASSERT_TRUE(one.publish(record_of(1)).is_ok());
  const auto refuse = [](const std::vector<RankRecord>&) -> Result<PlanTable> {
    return Status(StatusCode::Unsupported, "no program");
  };
  EXPECT_EQ(zero.finish(record_of(0), 5, refuse).status().to_string(), "unsupported: no program");
  EXPECT_EQ(one.finish(record_of(1), 5, refuse).status().to_string(), "unsupported: no program");
}

TEST(Bootstrap, NoticesAnotherProcessInItsPlace) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  ASSERT_TRUE(one.publish(record_of(1)).is_ok());
  ASSERT_TRUE(zero.finish(record_of(0), 5, &Meeting::decide).is_ok());
  RankRecord late = record_of(1);
  late.peer.process_id = 999;
  EXPECT_EQ(
      one.finish(late, 5, &Meeting::decide).status().message(),
      "rank 0 holds another process as rank 1 of \"world\": two processes have the same rank, "
      "or the store keeps keys of an earlier run");
}

TEST(Bootstrap, EndsWhenInterrupted) {
  Meeting meeting;
  Bootstrap zero(*meeting.store, meeting.clock, {"world", 0, 2, kNever / 2, [] { return true; }});
  ASSERT_TRUE(zero.publish(record_of(0)).is_ok());
  EXPECT_EQ(zero.finish(record_of(0), 5, &Meeting::decide).status().to_string(),
            "aborted: the rendezvous was interrupted");
}

}  // namespace
}  // namespace mccl
