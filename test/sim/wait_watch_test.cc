// Who keeps whom waiting (law L9): mismatches that no message shows, ranks that do not come,
// circles of waits, and ranks that are stopped, in virtual time.
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/simulated_group.h"

namespace mccl {
namespace {

class WaitWatch : public testing::Test {
 protected:
  using Call = std::function<Result<std::shared_ptr<Work>>(Communicator&, CallOptions)>;

  void make(int rank_count, const sim::WorldOptions& options = {}) {
    group_ = std::make_unique<SimulatedGroup>(
        rank_count, options,
        SimulatedGroupOptions{.has_timers = true, .log = [this](int rank, std::string_view line) {
                                lines_.push_back(std::to_string(rank) + ": " + std::string(line));
                              }});
    add_group("world");
    works_.resize(static_cast<size_t>(rank_count));
    data_.assign(static_cast<size_t>(rank_count), std::vector<float>(8, 1));
    lines_.clear();
  }
  void add_group(const std::string& name) { ASSERT_TRUE(group_->add_communicator(name).is_ok()); }

  float* data(Communicator& communicator) {
    return data_[static_cast<size_t>(communicator.rank())].data();
  }
  Call all_reduce(int64_t count = 8) {
    return [this, count](Communicator& communicator, CallOptions options) {
      return communicator.all_reduce(data(communicator), data(communicator), count,
                                     DataType::Float32, ReduceOp::Sum, std::move(options));
    };
  }
  Call broadcast(int root) {
    return [this, root](Communicator& communicator, CallOptions options) {
      return communicator.broadcast(data(communicator), 8, DataType::Float32, root,
                                    std::move(options));
    };
  }
  Call reduce(int root) {
    return [this, root](Communicator& communicator, CallOptions options) {
      return communicator.reduce(data(communicator), data(communicator), 8, DataType::Float32,
                                 ReduceOp::Sum, root, std::move(options));
    };
  }
  static Call barrier() {
    return [](Communicator& communicator, CallOptions options) {
      return communicator.barrier(std::move(options));
    };
  }

  void post_at(TimeNs time_ns, int rank, Call call, TimeNs timeout_ns = 60 * kNsPerSecond,
               size_t index = 0) {
    group_->world().at(time_ns, rank, [this, rank, call = std::move(call), timeout_ns, index] {
      Result<std::shared_ptr<Work>> work =
          call(group_->communicator(rank, index), {.timeout_ns = timeout_ns});
      auto& works = works_[static_cast<size_t>(rank)];
      if (work.is_ok())
        works.push_back(work.value());
      else
        refusals_.push_back(work.status());
    });
  }
  void run_until(TimeNs time_ns) {
    (void)group_->world().run([] { return false; }, time_ns);
  }
  Status status(int rank, size_t call = 0) {
    const auto& works = works_[static_cast<size_t>(rank)];
    if (works.size() <= call || !works[call]->is_done())
      return Status(StatusCode::Internal, "not done");
    return works[call]->status();
  }
  bool has_line(const std::string& text) {
    for (const std::string& line : lines_)
      if (line.find(text) != std::string::npos) return true;
    return false;
  }
  std::string all_lines() {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

  std::unique_ptr<SimulatedGroup> group_;
  std::vector<std::vector<float>> data_;
  std::vector<std::vector<std::shared_ptr<Work>>> works_;
  std::vector<Status> refusals_;
  std::vector<std::string> lines_;
};

std::string name_of(int rank) {
  const std::string number = std::to_string(rank);
  return "rank " + number + " (host sim://" + number + ", pid " + std::to_string(getpid()) + ")";
}

// Both wait for a message of the other, so that nothing but a question can show it.
TEST_F(WaitWatch, AMismatchThatNoMessageShowsIsFoundByAsking) {
  make(2);
  post_at(0, 0, reduce(0));
  post_at(0, 1, broadcast(0));
  run_until(250 * kNsPerMs);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(status(rank).code(), StatusCode::Mismatch) << status(rank).to_string();
    for (const char* call :
         {"reduce(float32, sum, root 0, 8 elements)", "broadcast(float32, root 0, 8 elements)"})
      EXPECT_NE(status(rank).message().find(call), std::string::npos) << status(rank).message();
  }
}

TEST_F(WaitWatch, ATimeoutNamesTheRankThatDidNotComeOnEveryRank) {
  make(4);
  for (int rank = 0; rank < 4; ++rank) post_at(0, rank, all_reduce());
  for (const int rank : {0, 1, 3}) post_at(kNsPerSecond, rank, all_reduce(), 3 * kNsPerSecond);
  run_until(10 * kNsPerSecond);
  for (const int rank : {0, 1, 3}) {
    EXPECT_EQ(status(rank, 1).code(), StatusCode::Timeout) << status(rank, 1).to_string();
    EXPECT_NE(status(rank, 1).message().find(name_of(2) +
                                             " has not made operation 1 of group world; its last "
                                             "call was 0 (all_reduce(float32, sum, 8 elements)), "),
              std::string::npos)
        << status(rank, 1).message();
  }
}

// In a ring only a neighbour waits for the rank that is missing; the others hear of it.
TEST_F(WaitWatch, TheNewsTravelsAlongTheChainOfWaits) {
  make(9);
  const auto large = [this](Communicator& communicator, CallOptions options) {
    static std::vector<float> memory(9 * 500'000);
    float* own = memory.data() + communicator.rank() * 500'000;
    (void)this;
    return communicator.all_reduce(own, own, 500'000, DataType::Float32, ReduceOp::Sum,
                                   std::move(options));
  };
  // Before anybody asks a second time.
  for (int rank = 0; rank < 9; ++rank)
    if (rank != 5) post_at(0, rank, large, 350 * kNsPerMs + rank);
  run_until(5 * kNsPerSecond);
  EXPECT_NE(status(0).message().find(
                name_of(5) + " has not made operation 0 of group world; it has made no call yet"),
            std::string::npos)
      << status(0).message();
}

TEST_F(WaitWatch, TwoGroupsWaitedForInOppositeOrderAreACircle) {
  make(2);
  add_group("other");
  post_at(0, 0, all_reduce(), 5 * kNsPerSecond, 0);
  post_at(0, 1, all_reduce(), 5 * kNsPerSecond, 1);
  run_until(4 * kNsPerSecond);
  const std::string call = "operation 0 (all_reduce(float32, sum, 8 elements)) of group ";
  EXPECT_TRUE(
      has_line("the ranks wait in a circle: " + name_of(0) + " waits in " + call + "world, and " +
               name_of(1) +
               " has not made operation 0 of group world; it has made no call yet; it waits "
               "for " +
               name_of(0) + " in " + call + "other"))
      << all_lines();
  run_until(6 * kNsPerSecond);
  EXPECT_NE(status(0).message().find("the ranks wait in a circle: rank 1"), std::string::npos)
      << status(0).message();
}

// A circle through three groups: nobody sees more of it than the next rank.
TEST_F(WaitWatch, ACircleThroughThreeGroupsIsFound) {
  make(3);
  add_group("second");
  add_group("third");
  // Leaves of broadcasts: each waits for one root only, which is busy in another group.
  post_at(0, 0, broadcast(1), 5 * kNsPerSecond, 0);
  post_at(0, 1, broadcast(2), 5 * kNsPerSecond, 1);
  post_at(0, 2, broadcast(0), 5 * kNsPerSecond, 2);
  run_until(4 * kNsPerSecond);
  EXPECT_TRUE(has_line("the ranks wait in a circle")) << all_lines();
}

// Rank 3 begins with the other group and waits there for ranks 1 and 2; rank 0 only waits for it.
TEST_F(WaitWatch, ACircleThroughOneOfSeveralIsFound) {
  make(4);
  add_group("other");
  for (const int rank : {0, 1, 2}) post_at(0, rank, all_reduce(), 30 * kNsPerSecond, 0);
  post_at(0, 3, all_reduce(), 30 * kNsPerSecond, 1);
  run_until(10 * kNsPerSecond);
  for (const int rank : {1, 2, 3})
    EXPECT_TRUE(has_line("the ranks wait in a circle: " + name_of(rank) + " waits in"))
        << rank << "\n"
        << all_lines();
}

// Rank 3 gets the broadcast of rank 0 through another rank, which has come and waits as well.
TEST_F(WaitWatch, ACircleThroughARankThatHasComeIsFound) {
  make(4);
  add_group("other");
  for (const int rank : {1, 2, 3}) post_at(0, rank, broadcast(0), 30 * kNsPerSecond, 0);
  post_at(0, 0, broadcast(3), 30 * kNsPerSecond, 1);
  run_until(10 * kNsPerSecond);
  const std::string call = "operation 0 (broadcast(float32, root 0, 8 elements)) of group world";
  EXPECT_TRUE(has_line("the ranks wait in a circle: " + name_of(3) + " waits in " + call +
                       ", and " + name_of(2) + ": it waits for " + name_of(0) + " in " + call +
                       "; " + name_of(0) +
                       " has not made operation 0 of group world; it has "
                       "made no call yet; it waits for " +
                       name_of(3) +
                       " in operation 0 "
                       "(broadcast(float32, root 3, 8 elements)) of group other"))
      << all_lines();
  for (const int rank : {0, 2})
    EXPECT_TRUE(has_line("the ranks wait in a circle: " + name_of(rank) + " waits in"))
        << all_lines();
}

TEST_F(WaitWatch, DataThatIsLongOnItsWayIsNoCircle) {
  make(3, {.bytes_per_second = 2'000'000});
  data_.assign(3, std::vector<float>(4'000'000, 1));
  for (const int rank : {0, 1, 2}) post_at(0, rank, all_reduce(4'000'000));
  run_until(9 * kNsPerSecond);
  EXPECT_EQ(status(0).code(), StatusCode::Internal) << "it is over already";
  EXPECT_FALSE(has_line("circle")) << all_lines();
  run_until(30 * kNsPerSecond);
  for (const int rank : {0, 1, 2}) EXPECT_TRUE(status(rank).is_ok()) << rank;
}

// Rank 1 has posted a receive for later, and computes: rank 0 waits for it, not the other way
// round.
TEST_F(WaitWatch, AReceiveThatWasPostedEarlyIsNoCircle) {
  for (const bool is_from_any : {false, true}) {
    make(2);
    post_at(0, 1, [this, is_from_any](Communicator& communicator, CallOptions options) {
      float* room = data(communicator);
      return is_from_any
                 ? communicator.recv_any_source(room, 8, DataType::Float32, 7, std::move(options))
                 : communicator.recv(room, 8, DataType::Float32, 0, 7, std::move(options));
    });
    post_at(0, 0, all_reduce(), 5 * kNsPerSecond);
    run_until(6 * kNsPerSecond);
    EXPECT_FALSE(has_line("circle")) << all_lines();
    EXPECT_NE(status(0).message().find(name_of(1) + " has not made operation 0 of group world; it "
                                                    "has made no call yet"),
              std::string::npos)
        << status(0).message();
  }
}

TEST_F(WaitWatch, ALongWaitAmongRanksThatHaveComeNamesThem) {
  make(3, {.bytes_per_second = 500'000});
  data_.assign(3, std::vector<float>(4'000'000, 1));
  for (const int rank : {0, 1, 2}) post_at(0, rank, all_reduce(4'000'000));
  run_until(31 * kNsPerSecond);
  EXPECT_TRUE(has_line("has waited for 30.0 s: it waits for rank ")) << all_lines();
}

TEST_F(WaitWatch, ALateRankCostsNoErrorAndNoNotice) {
  make(4);
  for (const int rank : {0, 1, 2}) post_at(0, rank, all_reduce());
  post_at(25 * kNsPerSecond, 3, all_reduce());
  run_until(26 * kNsPerSecond);
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(status(rank).is_ok()) << rank;
  EXPECT_TRUE(lines_.empty()) << all_lines();
}

TEST_F(WaitWatch, AStoppedRankIsNamedAndWaitedFor) {
  make(3);
  for (int rank = 0; rank < 3; ++rank) post_at(0, rank, all_reduce());
  group_->world().at(kNsPerMs * 100, 0, [this] { group_->world().pause(1); });
  for (const int rank : {0, 2}) post_at(kNsPerMs * 200, rank, all_reduce());
  post_at(kNsPerMs * 200, 1, all_reduce());
  group_->world().at(5 * kNsPerSecond, 0, [this] { group_->world().resume(1); });
  run_until(6 * kNsPerSecond);
  for (int rank = 0; rank < 3; ++rank) EXPECT_TRUE(status(rank, 1).is_ok()) << rank;
  EXPECT_EQ(data_[0], std::vector<float>(8, 9));
  EXPECT_TRUE(has_line(name_of(1) + " for 2.2 s: it does not answer: it is stopped, or its host "
                                    "sleeps"))
      << all_lines();
  EXPECT_TRUE(has_line(name_of(1) + " answers again, after 4.")) << all_lines();
}

TEST_F(WaitWatch, AStoppedRankIsStillNamedLongAfterwards) {
  make(3);
  for (int rank = 0; rank < 3; ++rank) post_at(0, rank, all_reduce());
  group_->world().at(kNsPerMs * 100, 0, [this] { group_->world().pause(1); });
  for (const int rank : {0, 2}) post_at(kNsPerMs * 200, rank, all_reduce(), 60 * kNsPerSecond);
  run_until(90 * kNsPerSecond);
  const std::string words = name_of(1) + ": it does not answer: it is stopped, or its host sleeps";
  EXPECT_TRUE(has_line("has waited for 30.0 s: " + words)) << all_lines();
  EXPECT_NE(status(0, 1).message().find(words), std::string::npos) << status(0, 1).message();
}

TEST_F(WaitWatch, ALongWaitIsTold) {
  make(2);
  post_at(0, 0, all_reduce());
  run_until(31 * kNsPerSecond);
  EXPECT_TRUE(has_line("has waited for 30.0 s: " + name_of(1) +
                       " has not made operation 0 of group world; it has made no call yet"))
      << all_lines();
}

TEST_F(WaitWatch, ABarrierAgainstALeafOfABroadcastIsAMismatch) {
  make(4);
  for (const int rank : {0, 1, 3}) post_at(0, rank, broadcast(0));
  post_at(0, 2, barrier());
  run_until(kNsPerSecond);
  EXPECT_EQ(status(2).code(), StatusCode::Mismatch) << status(2).to_string();
  // Who has left its call already hears of it at the next one.
  post_at(kNsPerSecond, 0, all_reduce());
  run_until(2 * kNsPerSecond);
  ASSERT_EQ(refusals_.size(), 1u);
  EXPECT_EQ(refusals_[0].code(), StatusCode::Mismatch);
  EXPECT_EQ(refusals_[0].message(), status(2).message());
}

}  // namespace
}  // namespace mccl
