// A rendezvous over a store that is stopped, or that holds what it should not; and a rank that
// gives up while the others agree.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/bootstrap.h"
#include "meeting.h"
#include "planner/plan_table.h"

namespace mccl {
namespace {

// What a rank asks of the store, and what its calls are told of their end.
class WatchedStore final : public Store {
 public:
  explicit WatchedStore(Store& store) : store_(store) {}
  Status set(const std::string& key, const std::string& value) override {
    return store_.set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    return store_.get(key, timeout_ns);
  }
  Status set_within(const StoreBound& bound, const std::string& key,
                    const std::string& value) override {
    note(bound);
    if (before_set) before_set(key);
    return set(key, value);
  }
  Result<std::optional<std::string>> get_within(const StoreBound& bound, const std::string& key,
                                                int64_t timeout_ns) override {
    note(bound);
    if (is_stopped && bound.interrupted && bound.interrupted())
      return Status(StatusCode::Aborted, "the call to the store was interrupted");
    if (is_stopped) return Status(StatusCode::Network, "no answer");
    return get(key, timeout_ns);
  }

  std::function<void(const std::string& key)> before_set;
  bool is_stopped = false;
  int request_count = 0;
  StoreBound last_bound;

 private:
  void note(const StoreBound& bound) {
    ++request_count;
    last_bound = bound;
  }

  Store& store_;
};

const std::string kBlobKey = "mccl/world/0000000000000005/blob";

BootstrapOptions options_of(int rank, int rank_count, TimeNs timeout_ns,
                            std::function<bool()> interrupted = {}) {
  return {"world", "world", rank, rank_count, timeout_ns, std::move(interrupted)};
}

TEST(BootstrapBounds, ARequestEndsWithTheRendezvousAndLeavesTimeForARoundTrip) {
  Meeting meeting;
  WatchedStore store(*meeting.store);
  Bootstrap zero(store, meeting.clock, meeting.host, options_of(0, 2, 5 * kNsPerSecond));
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  EXPECT_EQ(store.last_bound.answer_ns, 5 * kNsPerSecond);
  EXPECT_FALSE(store.last_bound.interrupted);
  meeting.clock.advance_to(4 * kNsPerSecond);
  store.is_stopped = true;
  EXPECT_EQ(zero.finish(&Meeting::decide).status().to_string(), "network: no answer");
  EXPECT_EQ(store.last_bound.answer_ns, 2 * kNsPerSecond);
  // An answer takes no more than 30 s, however long the rendezvous may be.
  Bootstrap patient(store, meeting.clock, meeting.host, options_of(0, 2, 60 * kNsPerSecond));
  ASSERT_TRUE(patient.publish(record_of(0), 6).is_ok());
  EXPECT_EQ(store.last_bound.answer_ns, 30 * kNsPerSecond);
}

TEST(BootstrapBounds, AnInterruptEndsARequestAndIsHeardOnce) {
  Meeting meeting;
  WatchedStore store(*meeting.store);
  int asked = 0;
  bool is_due = false;
  Bootstrap zero(store, meeting.clock, meeting.host, options_of(0, 2, 60 * kNsPerSecond, [&] {
                   asked += is_due ? 1 : 0;
                   return is_due && asked == 1;
                 }));
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  store.is_stopped = is_due = true;
  EXPECT_EQ(zero.finish(&Meeting::decide).status().to_string(),
            "aborted: the rendezvous was interrupted");
  // The last words are neither interrupted nor long.
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(store.last_bound.interrupted);
  EXPECT_EQ(store.last_bound.answer_ns, 2 * kNsPerSecond);
}

TEST(BootstrapBounds, TheGroupHearsOfARankThatGaveUpWhileTheOthersAgreed) {
  Meeting meeting;
  WatchedStore store(*meeting.store);
  Bootstrap zero = meeting.bootstrap(0, 2);
  Bootstrap one(store, meeting.clock, meeting.host,
                options_of(1, 2, kNsPerSecond, [] { return true; }));
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  Status agreed(StatusCode::Internal, "not asked");
  store.before_set = [&](const std::string& key) {
    if (key == kBlobKey) agreed = zero.finish(&Meeting::decide).status();
  };
  EXPECT_EQ(one.finish(&Meeting::decide).status().to_string(),
            "aborted: the rendezvous was interrupted");
  EXPECT_EQ(agreed.to_string(), "ok");
  EXPECT_EQ(meeting.host.left,
            (std::vector<std::string>{
                "5 aborted: rank 1 (host host1, pid 0): the rendezvous was interrupted"}));
}

TEST(BootstrapBounds, WhoIsNoMemberOfWhatWasAgreedLeavesNothing) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  Bootstrap late = meeting.bootstrap(1, 2);
  RankRecord other = record_of(1);
  other.peer.process_id = 999;
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  ASSERT_TRUE(late.publish(other, 0).is_ok());
  ASSERT_TRUE(zero.finish(&Meeting::decide).is_ok());
  EXPECT_EQ(one.finish(&Meeting::decide).status().code(), StatusCode::Mismatch);
  EXPECT_EQ(meeting.host.left, std::vector<std::string>{});
}

// Rank 0 has 55 s left; rank 2's time is up.
TEST(BootstrapBounds, RankZeroAloneListsWhoIsMissingAndSaysSoWhenAnybodysTimeIsUp) {
  for (const int rank_count : {4, 200}) {
    Meeting meeting;
    WatchedStore store(*meeting.store);
    Host host_of_zero;
    Bootstrap zero(*meeting.store, meeting.clock, host_of_zero,
                   options_of(0, rank_count, 60 * kNsPerSecond));
    Bootstrap two(store, meeting.clock, meeting.host, options_of(2, rank_count, 4 * kNsPerSecond));
    ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
    ASSERT_TRUE(two.publish(record_of(2), 0).is_ok());
    for (int rank = 4; rank < rank_count; ++rank) {
      Bootstrap other = meeting.bootstrap(rank, rank_count);
      ASSERT_TRUE(other.publish(record_of(rank), 0).is_ok());
    }
    meeting.clock.advance_to(5 * kNsPerSecond);
    Status of_zero;
    std::thread leader([&] { of_zero = zero.finish(&Meeting::decide).status(); });
    const Status of_two = two.finish(&Meeting::decide).status();
    leader.join();
    const std::string text = "timeout: Timed out after 60.0 s waiting for ranks 1, 3 of " +
                             std::to_string(rank_count) +
                             " of world; were they started, and do they reach the store?";
    EXPECT_EQ(of_zero.to_string(), text);
    EXPECT_EQ(of_two.to_string(), text);
    EXPECT_EQ(store.request_count, 9);
  }
}

TEST(BootstrapBounds, OthersNameTheirParentOrRankZero) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 20);
  Bootstrap ten = meeting.bootstrap(10, 20);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(ten.publish(record_of(10), 0).is_ok());
  EXPECT_EQ(ten.finish(&Meeting::decide).status().to_string(),
            "timeout: Timed out after 0.0 s waiting for rank 1 of 20 of world; were they started, "
            "and do they reach the store?");
}

TEST(BootstrapBounds, TheNoticeOfAnotherRankNeedsNoRequest) {
  Meeting meeting;
  WatchedStore store(*meeting.store);
  bool is_late = false;
  Bootstrap zero = meeting.bootstrap(0, 200);
  Bootstrap two(store, meeting.clock, meeting.host,
                options_of(2, 200, 60 * kNsPerSecond, [&] { return is_late; }));
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(two.publish(record_of(2), 0).is_ok());
  meeting.clock.advance_to(5 * kNsPerSecond);
  meeting.host.on_notice = [&] {
    is_late = true;
    store.request_count = 0;
  };
  EXPECT_EQ(two.finish(&Meeting::decide).status().code(), StatusCode::Aborted);
  EXPECT_EQ(meeting.host.notices,
            (std::vector<std::string>{
                "world has waited 5 s for rank 0, whose notices name who is missing"}));
  EXPECT_EQ(store.request_count, 3);  // the blob once more, and the last words
}

TEST(BootstrapBounds, RefusesAnAgreementOfNoRanks) {
  Meeting meeting;
  Bootstrap zero = meeting.bootstrap(0, 2), one = meeting.bootstrap(1, 2);
  ASSERT_TRUE(zero.publish(record_of(0), 5).is_ok());
  ASSERT_TRUE(one.publish(record_of(1), 0).is_ok());
  const nlohmann::json blob{
      {"table", write_plan_table(Meeting::decide({record_of(0), record_of(1)}).value())},
      {"ranks", nlohmann::json::array()}};
  ASSERT_TRUE(meeting.store->set(kBlobKey, blob.dump()).is_ok());
  EXPECT_EQ(one.finish(&Meeting::decide).status().to_string(),
            "network: the store holds no valid blob of rank 0: it names no ranks; does another "
            "program or version use its keys?");
}

TEST(BootstrapBounds, RefusesAMeetingThatIsNoNumber) {
  for (const std::string text : {"what", "5 ", "123456789abcdef01"}) {
    Meeting meeting;
    ASSERT_TRUE(meeting.store->set("mccl/world/meeting", text).is_ok());
    EXPECT_EQ(meeting.bootstrap(1, 2).publish(record_of(1), 0).to_string(),
              "network: the store holds no valid number of a meeting: \"" + text +
                  "\"; does another program or version use its keys?");
  }
}

// A meeting that is over, led by a record that was written by somebody else.
void forge_old_meeting(Meeting& meeting, int rank_count) {
  RankRecord leader = record_of(0);
  leader.rank_count = rank_count;
  leader.title = "world";
  ASSERT_TRUE(meeting.store->set("mccl/world/meeting", "0000000000000005").is_ok());
  ASSERT_TRUE(meeting.store->set(kBlobKey, "{}").is_ok());
  ASSERT_TRUE(
      meeting.store->set("mccl/world/0000000000000005/rank/0", to_json(leader).dump()).is_ok());
}

TEST(BootstrapBounds, RefusesALeaderOfMoreRanksThanThereCanBe) {
  Meeting meeting;
  forge_old_meeting(meeting, (1 << 20) + 1);
  EXPECT_EQ(meeting.bootstrap(1, 2).publish(record_of(1), 0).to_string(),
            "network: the store holds no valid record of rank 0: it names 1048577 ranks; does "
            "another program or version use its keys?");
}

TEST(BootstrapBounds, LooksForItselfInAnOldMeetingUntilItsTimeIsUp) {
  Meeting meeting;
  forge_old_meeting(meeting, 1 << 20);
  WatchedStore store(*meeting.store);
  RankRecord record = record_of(1);
  record.pid = 4711;
  Bootstrap one(store, meeting.clock, meeting.host, options_of(1, 2, 0));
  EXPECT_EQ(one.publish(record, 0).code(), StatusCode::Timeout);
  EXPECT_LT(store.request_count, 10);
}

}  // namespace
}  // namespace mccl
