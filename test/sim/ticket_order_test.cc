// Why calls get their ticket on the caller's thread (MCCL, arXiv 2610.39029, section 6.1): a back
// end whose worker takes whichever bucket is ready first, and holds the wire until it is reduced,
// deadlocks as soon as two ranks take two buckets in different orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

constexpr int kBuckets = 3;
constexpr int64_t kCount = 64;

enum class Order { AsReady, ByTicket };

// A rank's only worker: one bucket on the wire at a time. Each bucket has a communicator of its
// own, so that frames of another one cannot be taken for it.
class Worker {
 public:
  Worker(SimGroup& group, int rank, Order order, Prng& prng)
      : group_(group), rank_(rank), order_(order), buckets_(kBuckets) {
    for (int bucket = 0; bucket < kBuckets; ++bucket) {
      buckets_[static_cast<size_t>(bucket)].data.assign(kCount, 1.0F);
      // Kernels finish a few microseconds apart.
      const auto ready_ns = static_cast<TimeNs>(prng.below(20 * kNsPerUs));
      group.world().at(ready_ns, rank, [this, bucket] {
        buckets_[static_cast<size_t>(bucket)].is_ready = true;
        go_on();
      });
    }
  }

  bool is_over() {
    go_on();
    return done_count_ == kBuckets;
  }

 private:
  struct Bucket {
    std::vector<float> data;
    bool is_ready = false;
    bool is_taken = false;
    std::shared_ptr<Work> work;
  };

  void go_on() {
    if (current_ != nullptr) {
      if (!current_->work->is_done()) return;
      current_ = nullptr;
      ++done_count_;
    }
    for (Bucket& bucket : buckets_) {
      if (bucket.is_taken) continue;
      if (!bucket.is_ready) {
        if (order_ == Order::ByTicket) return;
        continue;
      }
      bucket.is_taken = true;
      current_ = &bucket;
      const auto index = static_cast<size_t>(&bucket - buckets_.data());
      bucket.work = group_.communicator(rank_, index)
                        .all_reduce(bucket.data.data(), bucket.data.data(), kCount,
                                    DataType::Float32, ReduceOp::Sum)
                        .value();
      return;
    }
  }

  SimGroup& group_;
  int rank_;
  Order order_;
  std::vector<Bucket> buckets_;
  Bucket* current_ = nullptr;
  int done_count_ = 0;
};

bool ends(uint64_t seed, Order order, const std::shared_ptr<ProgramProver>& prover) {
  Prng prng(seed);
  const int rank_count = 2 + static_cast<int>(prng.below(3));
  SimGroup group(rank_count, {.seed = prng.next(), .latency_ns = 5'000},
                 {.settings = {{"MCCL_LOG", "error"}}, .portions = {}, .prover = prover});
  for (int bucket = 1; bucket < kBuckets; ++bucket)
    group.add_communicator("bucket " + std::to_string(bucket));
  std::vector<std::unique_ptr<Worker>> workers;
  for (int rank = 0; rank < rank_count; ++rank)
    workers.push_back(std::make_unique<Worker>(group, rank, order, prng));
  const bool has_ended = group.world().run([&] {
    return std::count_if(workers.begin(), workers.end(), [](const std::unique_ptr<Worker>& one) {
             return one->is_over();
           }) == rank_count;
  });
  for (int bucket = 0; bucket < kBuckets; ++bucket)
    for (int rank = 0; rank < rank_count; ++rank)
      group.destroy_communicator(rank, static_cast<size_t>(bucket));
  return has_ended;
}

TEST(TicketOrder, WithoutTicketsTheRingDeadlocks) {
  const auto prover = std::make_shared<ProgramProver>();
  uint64_t first = 0;
  for (uint64_t seed = 1; seed <= 1'000 && first == 0; ++seed)
    if (!ends(seed, Order::AsReady, prover)) first = seed;
  std::printf("the first of 1,000 seeds that deadlocks: %llu\n",
              static_cast<unsigned long long>(first));
  EXPECT_GT(first, 0u);
}

TEST(TicketOrder, WithTicketsItNeverDoes) {
  const auto prover = std::make_shared<ProgramProver>();
  for (uint64_t seed = 1; seed <= 1'000; ++seed)
    EXPECT_TRUE(ends(seed, Order::ByTicket, prover)) << seed;
}

}  // namespace
}  // namespace mccl
