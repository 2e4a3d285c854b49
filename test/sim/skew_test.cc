// Ranks that are not there yet: what a fast one may send ahead is bounded by credits, what is
// parked is bounded with it, and nobody waits longer than for the slowest rank (MCCL, arXiv
// 2610.39029, section 4.3).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include "algorithms/catalog.h"
#include "base/prng.h"
#include "planner/call_plan.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

constexpr int64_t kBucketBytes = int64_t{25} << 20;
constexpr int64_t kElementBytes = 4;
// Messages outstanding per stream, and what the paper allows beside them.
constexpr int64_t kDepth = 2;

// Ranks share the buckets: no figure here depends on what is in them.
class Skew : public testing::Test {
 protected:
  void make(int rank_count, int bucket_count) {
    group_ = std::make_unique<SimGroup>(
        rank_count, sim::WorldOptions{},
        SimGroupOptions{.settings = {{"MCCL_PROFILE", "paper"}, {"MCCL_LOG", "warning"}},
                        .portions = {},
                        .prover = {}});
    buckets_.assign(static_cast<size_t>(bucket_count) * kBucketBytes / kElementBytes, 0);
    finished_ns_.assign(static_cast<size_t>(rank_count), 0);
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < rank_count; ++rank) works.push_back(call(rank, buckets_.data(), 64));
    ASSERT_TRUE(group_->run(works));
    (void)group_->world().run([] { return false; });
    begin_ns_ = group_->world().clock().now();
  }

  // The rank reduces all buckets, `late_ns` after the beginning.
  void arrive(int rank, TimeNs late_ns) {
    group_->world().at(begin_ns_ + late_ns, rank, [this, rank] {
      for (size_t at = 0; at < buckets_.size(); at += kBucketBytes / kElementBytes)
        works_.push_back(call(rank, &buckets_[at], kBucketBytes / kElementBytes));
    });
  }

  std::shared_ptr<Work> call(int rank, float* data, int64_t count) {
    return group_->communicator(rank)
        .all_reduce(data, data, count, DataType::Float32, ReduceOp::Sum,
                    {.on_complete =
                         [this, rank](const Status& status) {
                           EXPECT_TRUE(status.is_ok()) << status.message();
                           finished_ns_[static_cast<size_t>(rank)] =
                               group_->world().clock().now() - begin_ns_;
                         }})
        .value();
  }

  TimeNs run_to_end() {
    EXPECT_TRUE(group_->world().run([this] {
      return works_.size() == static_cast<size_t>(group_->rank_count()) * bucket_count() &&
             std::all_of(works_.begin(), works_.end(),
                         [](const std::shared_ptr<Work>& work) { return work->is_done(); });
    }));
    return *std::max_element(finished_ns_.begin(), finished_ns_.end());
  }

  size_t bucket_count() const { return buckets_.size() / (kBucketBytes / kElementBytes); }

  std::unique_ptr<SimGroup> group_;
  std::vector<float> buckets_;
  std::vector<std::shared_ptr<Work>> works_;
  std::vector<TimeNs> finished_ns_;
  TimeNs begin_ns_ = 0;
};

TEST_F(Skew, ARankTwoSecondsEarlyIsHeldBackByCredits) {
  constexpr int kRanks = 4;
  make(kRanks, 18);
  const PlanTable& table = group_->communicator(0).core().agreement().table;
  const PlanEntry& entry = *find_entry(table, Collective::AllReduce, kBucketBytes).value();
  const std::shared_ptr<const ProvenProgram> program =
      ProgramProver().find(find_choice(entry.algorithm, catalog()), kRanks).value();
  const CallPlan plan =
      plan_call(entry, measure_shape(program->program()), kBucketBytes / kElementBytes,
                kElementBytes, table.park_limit_bytes)
          .value();
  const int64_t streams = entry.channel_sets * plan.instance_count;

  constexpr TimeNs kEarlyNs = 2 * kNsPerSecond;
  const uint64_t sent_before = group_->world().bytes_sent(0);
  arrive(0, 0);
  for (int rank = 1; rank < kRanks; ++rank) arrive(rank, kEarlyNs);
  (void)group_->world().run([] { return false; }, begin_ns_ + kEarlyNs - 1);
  const auto ahead = static_cast<int64_t>(group_->world().bytes_sent(0) - sent_before);
  const size_t parked = group_->buffered_bytes_max(1);
  std::printf(
      "%lld streams of %lld-byte slices: %lld bytes ahead, %.2f slices per stream; at most "
      "%zu bytes parked\n",
      static_cast<long long>(streams), static_cast<long long>(plan.slice_bytes),
      static_cast<long long>(ahead),
      static_cast<double>(ahead) / static_cast<double>(streams * plan.slice_bytes), parked);
  EXPECT_GT(ahead, streams * plan.slice_bytes);  // it does run ahead
  EXPECT_LE(ahead, streams * (kDepth + 2) * plan.slice_bytes);
  EXPECT_LE(parked, static_cast<size_t>(streams * (kDepth + 2) * plan.slice_bytes));
  // The early rank has cost nobody anything: as long as if all had come together.
  const TimeNs skewed_ns = run_to_end() - kEarlyNs;
  make(kRanks, 18);
  works_.clear();
  for (int rank = 0; rank < kRanks; ++rank) arrive(rank, 0);
  const TimeNs together_ns = run_to_end();
  EXPECT_LE(skewed_ns, together_ns * 101 / 100);
}

TEST_F(Skew, NobodyWaitsLongerThanForTheSlowestRank) {
  constexpr int kRanks = 24;
  make(kRanks, 1);
  for (int rank = 0; rank < kRanks; ++rank) arrive(rank, 0);
  const TimeNs ring_ns = run_to_end();
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    (void)group_->world().run([] { return false; });
    begin_ns_ = group_->world().clock().now();
    works_.clear();
    Prng prng(seed);
    TimeNs slowest_ns = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto late_ns = static_cast<TimeNs>(prng.below(200 * kNsPerMs));
      slowest_ns = std::max(slowest_ns, late_ns);
      arrive(rank, late_ns);
    }
    (void)run_to_end();
    const TimeNs mean_ns = std::accumulate(finished_ns_.begin(), finished_ns_.end(), TimeNs{0}) /
                           static_cast<TimeNs>(finished_ns_.size());
    std::printf("seed %llu: slowest arrival %.1f ms, ring %.1f ms, mean completion %.1f ms\n",
                static_cast<unsigned long long>(seed), static_cast<double>(slowest_ns) / 1e6,
                static_cast<double>(ring_ns) / 1e6, static_cast<double>(mean_ns) / 1e6);
    EXPECT_LE(mean_ns, slowest_ns + ring_ns);
    EXPECT_GE(mean_ns, slowest_ns);
  }
}

}  // namespace
}  // namespace mccl
