// Laws L9 to L11 in virtual time: a lost rank, calls that differ, a rank that does not call, and
// the end of a communicator. Every rank learns of the first cause and says it in words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/catalog.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kCount = 400'000;

using Works = std::vector<std::shared_ptr<Work>>;
using Tensors = std::vector<std::vector<float>>;

Tensors make_tensors(int rank_count, int64_t count) {
  Tensors tensors;
  for (int rank = 0; rank < rank_count; ++rank)
    tensors.emplace_back(static_cast<size_t>(count), static_cast<float>(rank));
  return tensors;
}

// The tensor cut into a block per rank.
template <typename UserBlock>
std::vector<UserBlock> blocks_of(float* data, int64_t count, int rank_count) {
  std::vector<UserBlock> blocks;
  const int64_t share = count / rank_count;
  for (int rank = 0; rank < rank_count; ++rank) blocks.push_back({data + rank * share, share});
  return blocks;
}

bool has_root(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Reduce ||
         collective == Collective::Gather || collective == Collective::Scatter;
}

// In place and rooted at rank 0 where that means something.
Result<std::shared_ptr<Work>> post(Communicator& communicator, Collective collective,
                                   std::vector<float>& tensor) {
  const auto count = static_cast<int64_t>(tensor.size());
  const int ranks = communicator.rank_count();
  const int64_t share = count / ranks;
  float* data = tensor.data();
  float* own = data + communicator.rank() * share;
  const bool is_root = communicator.rank() == 0;
  const auto inputs = blocks_of<InputBlock>(data, count, ranks);
  const auto outputs = blocks_of<OutputBlock>(data, count, ranks);
  switch (collective) {
    case Collective::AllReduce:
      return communicator.all_reduce(data, data, count, DataType::Float32, ReduceOp::Sum);
    case Collective::Broadcast:
      return communicator.broadcast(data, count, DataType::Float32, 0);
    case Collective::AllGather:
      return communicator.all_gather(own, outputs, DataType::Float32);
    case Collective::ReduceScatter:
      return communicator.reduce_scatter(inputs, own, DataType::Float32, ReduceOp::Sum);
    case Collective::Reduce:
      return communicator.reduce(data, data, count, DataType::Float32, ReduceOp::Sum, 0);
    case Collective::Gather:
      return communicator.gather(own, share, is_root ? outputs : std::vector<OutputBlock>(),
                                 DataType::Float32, 0);
    case Collective::Scatter:
      return communicator.scatter(is_root ? inputs : std::vector<InputBlock>(), own, share,
                                  DataType::Float32, 0);
    case Collective::AllToAll:
      return communicator.all_to_all(blocks_of<InputBlock>(data, count / 2, ranks),
                                     blocks_of<OutputBlock>(data + count / 2, count / 2, ranks),
                                     DataType::Float32);
    case Collective::Custom:
      break;
  }
  return Status(StatusCode::Internal, "no such collective");
}

Works post_all(SimGroup& group, Collective collective, Tensors& tensors) {
  Works works;
  for (int rank = 0; rank < group.rank_count(); ++rank) {
    Result<std::shared_ptr<Work>> work =
        post(group.communicator(rank), collective, tensors[static_cast<size_t>(rank)]);
    EXPECT_TRUE(work.is_ok()) << work.status().to_string();
    if (work.is_ok()) works.push_back(std::move(work).value());
  }
  return works;
}

SimGroupOptions forced(const Algorithm& algorithm, std::shared_ptr<ProgramProver> prover) {
  return {.settings = {{"MCCL_ALGO", std::string(algorithm.name)}, {"MCCL_LOG", "warning"}},
          .portions = std::nullopt,
          .prover = std::move(prover)};
}

// --- a lost rank --------------------------------------------------------------------------------

class LostRank : public testing::TestWithParam<const Algorithm*> {};

TEST_P(LostRank, EndsTheWorkOfEverySurvivorWithItsName) {
  const Algorithm& algorithm = *GetParam();
  constexpr int kRanks = 5;
  Tensors small = make_tensors(kRanks, 10);
  Tensors tensors = make_tensors(kRanks, kCount);
  const auto prover = std::make_shared<ProgramProver>();
  TimeNs whole_ns = 0;
  for (const int percent : {-1, 1, 45, 70})
    for (const int lost : {0, 2, 4}) {
      SimGroup group(kRanks, {}, forced(algorithm, prover));
      // Connections are made on first use; who dies before is only missed.
      ASSERT_TRUE(group.run(post_all(group, algorithm.collective, small)));
      const TimeNs begin = group.world().clock().now();
      const Works works = post_all(group, algorithm.collective, tensors);
      if (percent < 0) {
        ASSERT_TRUE(group.run(works));
        whole_ns = group.world().clock().now() - begin;
        continue;
      }
      const int observer = (lost + 1) % kRanks;
      group.world().at(begin + whole_ns * percent / 100, observer,
                       [&] { group.world().kill(lost); });
      Works survivors;
      for (int rank = 0; rank < kRanks; ++rank)
        if (rank != lost) survivors.push_back(works[static_cast<size_t>(rank)]);
      ASSERT_TRUE(group.run(survivors)) << "lost " << lost << " at " << percent << " %";
      for (const std::shared_ptr<Work>& work : survivors) {
        // Later, or with a root, a rank may have given and got all that it had to.
        const bool may_be_over = percent > 1 || has_root(algorithm.collective);
        if (work->status().is_ok() && may_be_over) continue;
        EXPECT_EQ(work->status().code(), StatusCode::PeerLost) << work->status().to_string();
        EXPECT_THAT(work->status().message(), HasSubstr("lost rank " + std::to_string(lost)));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, LostRank, testing::ValuesIn(catalog().begin(), catalog().end()),
                         [](const testing::TestParamInfo<const Algorithm*>& param) {
                           return std::string(param.param->name);
                         });

TEST(LostRank, EndsTheNextCallOfSurvivorsThatWereIdle) {
  SimGroup group(3, {});
  Tensors tensors = make_tensors(3, 100);
  ASSERT_TRUE(group.run(post_all(group, Collective::AllReduce, tensors)));
  group.world().kill(1);
  group.world().run([] { return false; });
  const Result<std::shared_ptr<Work>> work =
      post(group.communicator(0), Collective::AllReduce, tensors[0]);
  ASSERT_FALSE(work.is_ok());
  EXPECT_EQ(work.status().code(), StatusCode::PeerLost);
  EXPECT_THAT(work.status().message(), HasSubstr("rank 1"));
}

// --- calls that differ --------------------------------------------------------------------------

using Post = std::function<Result<std::shared_ptr<Work>>(Communicator&, std::vector<float>&)>;

struct Difference {
  std::string name;
  Post usual;
  Post other;  // of one rank
  std::string first;
  std::string second;
};

Post reduce(int64_t count, DataType dtype, ReduceOp op) {
  return [=](Communicator& communicator, std::vector<float>& tensor) {
    return communicator.all_reduce(tensor.data(), tensor.data(), count, dtype, op);
  };
}

Post send_from(int root, int64_t count) {
  return [=](Communicator& communicator, std::vector<float>& tensor) {
    return communicator.broadcast(tensor.data(), count, DataType::Float32, root);
  };
}

Post gather(int64_t count) {
  return [=](Communicator& communicator, std::vector<float>& tensor) {
    std::vector<OutputBlock> blocks;
    for (int rank = 0; rank < communicator.rank_count(); ++rank)
      blocks.push_back({tensor.data() + rank * count, count});
    return communicator.all_gather(blocks[static_cast<size_t>(communicator.rank())].data, blocks,
                                   DataType::Float32);
  };
}

std::vector<Difference> differences() {
  std::vector<Difference> list;
  for (const int64_t count : {int64_t{100}, int64_t{40'000}, kCount}) {
    const Post usual = reduce(count, DataType::Float32, ReduceOp::Sum);
    const std::string size = "Of" + std::to_string(count);
    list.push_back({"Count" + size, usual, reduce(count - 3, DataType::Float32, ReduceOp::Sum),
                    std::to_string(count), std::to_string(count - 3)});
    list.push_back({"Dtype" + size, usual, reduce(count, DataType::BFloat16, ReduceOp::Sum),
                    "float32", "bfloat16"});
    list.push_back(
        {"Op" + size, usual, reduce(count, DataType::Float32, ReduceOp::Max), "sum", "max"});
    list.push_back({"Collective" + size, usual, gather(count / 8), "all_reduce", "all_gather"});
  }
  return list;
}

class DifferentCalls : public testing::TestWithParam<Difference> {};

TEST_P(DifferentCalls, EndOnEveryRankWithBothValues) {
  const Difference& difference = GetParam();
  for (const int rank_count : {2, 4})
    for (const int odd_one : {0, 1}) {
      SimGroup group(rank_count, {});
      Tensors tensors = make_tensors(rank_count, kCount);
      Works works;
      for (int rank = 0; rank < rank_count; ++rank) {
        const Post& call = rank == odd_one ? difference.other : difference.usual;
        Result<std::shared_ptr<Work>> work =
            call(group.communicator(rank), tensors[static_cast<size_t>(rank)]);
        ASSERT_TRUE(work.is_ok()) << work.status().to_string();
        works.push_back(std::move(work).value());
      }
      ASSERT_TRUE(group.run(works)) << rank_count << " ranks, stuck";
      for (const std::shared_ptr<Work>& work : works) {
        EXPECT_EQ(work->status().code(), StatusCode::Mismatch) << work->status().to_string();
        EXPECT_THAT(work->status().message(),
                    AllOf(HasSubstr(difference.first), HasSubstr(difference.second),
                          HasSubstr("rank " + std::to_string(odd_one))));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Calls, DifferentCalls, testing::ValuesIn(differences()),
                         [](const testing::TestParamInfo<Difference>& param) {
                           return param.param.name;
                         });

TEST(DifferentRoots, EndTheCommunicatorOnEveryRank) {
  SimGroup group(3, {});
  Tensors tensors = make_tensors(3, 100);
  for (int rank = 0; rank < 3; ++rank)
    ASSERT_TRUE(send_from(rank == 2 ? 1 : 0, 100)(group.communicator(rank),
                                                  tensors[static_cast<size_t>(rank)])
                    .is_ok());
  group.world().run([] { return false; });
  // Whoever only sent is done; the next call tells it.
  for (int rank = 0; rank < 3; ++rank) {
    const Result<std::shared_ptr<Work>> next =
        post(group.communicator(rank), Collective::AllReduce, tensors[static_cast<size_t>(rank)]);
    ASSERT_FALSE(next.is_ok()) << rank;
    EXPECT_EQ(next.status().code(), StatusCode::Mismatch) << next.status().to_string();
    EXPECT_THAT(next.status().message(), HasSubstr("root"));
  }
}

TEST(DifferentNumbersOfCalls, EndWhenTheOthersLeave) {
  SimGroup group(3, {});
  Tensors tensors = make_tensors(3, 100);
  ASSERT_TRUE(group.run(post_all(group, Collective::AllReduce, tensors)));
  Result<std::shared_ptr<Work>> extra =
      post(group.communicator(1), Collective::AllReduce, tensors[1]);
  ASSERT_TRUE(extra.is_ok());
  group.destroy_communicator(0);
  group.destroy_communicator(2);
  ASSERT_TRUE(group.run({extra.value()}));
  EXPECT_EQ(extra.value()->status().code(), StatusCode::PeerLost);
  EXPECT_THAT(extra.value()->status().message(), HasSubstr("different numbers of calls"));
}

// --- time-outs ----------------------------------------------------------------------------------

TEST(MissingCall, TimesOutOnTheOthersAndNamesTheRank) {
  SimGroup group(3, {});
  Tensors tensors = make_tensors(3, 100);
  Works works;
  // Rank 2 waits for rank 0, which waits for rank 1 and says so first.
  for (const int rank : {0, 2}) {
    CallOptions options;
    options.timeout_ns = (3 + rank) * kNsPerSecond;
    float* data = tensors[static_cast<size_t>(rank)].data();
    Result<std::shared_ptr<Work>> work = group.communicator(rank).all_reduce(
        data, data, 100, DataType::Float32, ReduceOp::Sum, options);
    ASSERT_TRUE(work.is_ok());
    works.push_back(std::move(work).value());
  }
  // Nothing else happens in this world that would make the rank look at its clock.
  group.world().at(3 * kNsPerSecond, 0, [] {});
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(group.world().clock().now() / kNsPerSecond, 3);
  for (const std::shared_ptr<Work>& work : works) {
    EXPECT_EQ(work->status().code(), StatusCode::Timeout) << work->status().to_string();
    EXPECT_THAT(work->status().message(), HasSubstr("a message from rank 1"));
  }
}

TEST(VanishedRank, TimesOutOnTheOthersAndIsNamed) {
  SimGroup group(2, {});
  Tensors tensors = make_tensors(2, kCount);
  ASSERT_TRUE(group.run(post_all(group, Collective::AllReduce, tensors)));
  group.world().vanish(1);
  CallOptions options;
  options.timeout_ns = kNsPerSecond;
  Result<std::shared_ptr<Work>> work = group.communicator(0).all_reduce(
      tensors[0].data(), tensors[0].data(), kCount, DataType::Float32, ReduceOp::Sum, options);
  ASSERT_TRUE(work.is_ok());
  group.world().at(2 * kNsPerSecond, 0, [] {});
  ASSERT_TRUE(group.run({work.value()}));
  EXPECT_EQ(work.value()->status().code(), StatusCode::Timeout);
  EXPECT_THAT(work.value()->status().message(), HasSubstr("rank 1"));
}

// --- the end of a communicator ------------------------------------------------------------------

// Nobody has exchanged anything yet: the control tree is what breaks, and what tells the others.
TEST(Death, IsHeardByRanksThatHaveNeverCalled) {
  SimGroup group(20, {});
  group.world().run([] { return false; });
  group.world().kill(5);
  // Who has never heard a byte from a rank waits a little for news before it judges.
  const TimeNs later = group.world().clock().now() + kNsPerSecond;
  for (int rank = 0; rank < 20; ++rank) group.world().at(later, rank, [] {});
  group.world().run([] { return false; });
  for (int rank = 0; rank < 20; ++rank) {
    if (rank == 5) continue;
    const Result<std::shared_ptr<Work>> call = group.communicator(rank).barrier({});
    ASSERT_FALSE(call.is_ok()) << "rank " << rank;
    EXPECT_EQ(call.status().code(), StatusCode::PeerLost) << "rank " << rank;
    EXPECT_THAT(call.status().message(), HasSubstr("lost rank 5")) << "rank " << rank;
  }
}

TEST(Destruction, OfAnIdleCommunicatorDisturbsNobody) {
  SimGroup group(3, {});
  const size_t second = group.add_communicator("second");
  Tensors tensors = make_tensors(3, 1'000);
  ASSERT_TRUE(group.run(post_all(group, Collective::AllReduce, tensors)));
  group.destroy_communicator(1);
  group.world().run([] { return false; });
  // The other communicator of the same processes goes on.
  Works works;
  for (int rank = 0; rank < 3; ++rank)
    works.push_back(post(group.communicator(rank, second), Collective::AllReduce,
                         tensors[static_cast<size_t>(rank)])
                        .value());
  ASSERT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works) EXPECT_TRUE(work->status().is_ok());
  EXPECT_EQ(tensors[0][999], 9);
  // This one says who left: to whom talks to it, and by them to the others.
  Works late;
  for (const int rank : {0, 2})
    late.push_back(
        post(group.communicator(rank), Collective::AllReduce, tensors[static_cast<size_t>(rank)])
            .value());
  ASSERT_TRUE(group.run(late));
  for (const std::shared_ptr<Work>& work : late) {
    EXPECT_EQ(work->status().code(), StatusCode::PeerLost) << work->status().to_string();
    EXPECT_THAT(work->status().message(), HasSubstr("rank 1"));
  }
}

TEST(Destruction, WithWorkInFlightEndsItEverywhere) {
  SimGroup group(3, {});
  Tensors tensors = make_tensors(3, kCount);
  const Works works = post_all(group, Collective::AllReduce, tensors);
  group.world().at(kNsPerMs, 0, [&] { group.destroy_communicator(2); });
  ASSERT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works) {
    EXPECT_FALSE(work->status().is_ok());
    EXPECT_THAT(work->status().message(), HasSubstr("rank 2"));
  }
}

TEST(Abort, EndsEveryWorkWithTheReasonGiven) {
  SimGroup group(4, {});
  Tensors tensors = make_tensors(4, kCount);
  const Works works = post_all(group, Collective::AllReduce, tensors);
  group.world().at(kNsPerMs, 1, [&] { group.communicator(1).abort("the loss is not a number"); });
  ASSERT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works) {
    EXPECT_EQ(work->status().code(), StatusCode::Aborted);
    EXPECT_THAT(work->status().message(),
                AllOf(HasSubstr("rank 1"), HasSubstr("the loss is not a number")));
  }
}

}  // namespace
}  // namespace mccl
