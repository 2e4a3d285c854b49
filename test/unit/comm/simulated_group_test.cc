#include "comm/simulated_group.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "algorithms/catalog.h"
#include "planner/explain.h"

namespace mccl {
namespace {

std::shared_ptr<const ProvenProgram> prove_all_pairs(int rank_count) {
  Program program = find_algorithm("all_reduce_all_pairs")->build(rank_count).value();
  program.name = "mine";
  return ProgramProver::prove(std::move(program)).value();
}

Result<std::shared_ptr<Work>> sum(SimulatedGroup& group, int rank, std::vector<float>& data) {
  return group.communicator(rank).all_reduce(data.data(), data.data(),
                                             static_cast<int64_t>(data.size()), DataType::Float32,
                                             ReduceOp::Sum);
}

TEST(SimulatedGroup, RunsAProgramThatTheCatalogueDoesNotHave) {
  SimulatedGroupOptions options;
  options.program = prove_all_pairs(3);
  SimulatedGroup group(3, {}, options);
  ASSERT_TRUE(group.add_communicator("world").is_ok());
  std::vector<std::vector<float>> data(3, std::vector<float>(7, 2));
  std::vector<std::shared_ptr<Work>> works;
  for (int rank = 0; rank < 3; ++rank)
    works.push_back(sum(group, rank, data[static_cast<size_t>(rank)]).value());
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(data[2], std::vector<float>(7, 6));
  ASSERT_EQ(group.communicator(0).stats().programs.size(), 1u);
  EXPECT_EQ(group.communicator(0).stats().programs[0].program, "mine");
}

TEST(SimulatedGroup, RefusesAProgramForAnotherNumberOfRanks) {
  SimulatedGroupOptions options;
  options.program = prove_all_pairs(3);
  SimulatedGroup group(2, {}, options);
  ASSERT_TRUE(group.add_communicator("world").is_ok());
  std::vector<float> data(7, 2);
  const Status status = sum(group, 0, data).status();
  EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
  EXPECT_EQ(status.message(), "program mine is for 3 ranks, the communicator has 2");
}

class CountingStore final : public Store {
 public:
  Status set(const std::string& key, const std::string& value) override {
    ++request_count;
    return store_->set(key, value);
  }
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    ++request_count;
    return store_->get(key, timeout_ns);
  }

  int request_count = 0;

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

TEST(SimulatedGroup, MeetsWithSixRequestsToTheStorePerRankAndSumsWithNone) {
  for (const int rank_count : {50, 100, 200}) {
    const auto store = std::make_shared<CountingStore>();
    SimulatedGroupOptions options;
    options.store = store;
    SimulatedGroup group(rank_count, {}, options);
    ASSERT_TRUE(group.add_communicator("world").is_ok());
    EXPECT_EQ(store->request_count, 6 * rank_count - 2);
    std::vector<float> data(static_cast<size_t>(rank_count), 1);
    std::vector<std::shared_ptr<Work>> works;
    for (int rank = 0; rank < rank_count; ++rank) {
      float* const own = &data[static_cast<size_t>(rank)];
      works.push_back(group.communicator(rank)
                          .all_reduce(own, own, 1, DataType::Float32, ReduceOp::Sum)
                          .value());
    }
    ASSERT_TRUE(group.run(works));
    EXPECT_EQ(data.back(), static_cast<float>(rank_count));
    EXPECT_EQ(store->request_count, 6 * rank_count - 2);
  }
}

TEST(SimulatedGroup, PlansByTheCostsThatItIsGiven) {
  // A hop costs so much that one round of all pairs is best whatever the size.
  SimulatedGroupOptions options;
  options.costs = LinkCosts{
      .alpha_ns = 1'000'000'000, .alpha_high_ns = 1'000'000'000, .bytes_per_second = 1'000'000'000};
  SimulatedGroup group(8, {}, options);
  ASSERT_TRUE(group.add_communicator("world").is_ok());
  const PlanTable& table = group.communicator(5).core().agreement().table;
  EXPECT_EQ(table.link.costs, *options.costs);
  EXPECT_EQ(explain(table, Collective::AllReduce, 1 << 20).candidates[0].algorithm,
            "all_reduce_all_pairs");
}

TEST(SimulatedGroup, RemembersTheMostMemoryThatMessagesTook) {
  SimulatedGroup group(2, {}, {});
  ASSERT_TRUE(group.add_communicator("world").is_ok());
  EXPECT_EQ(group.buffered_bytes_max(0), 0u);
  std::vector<std::vector<float>> data(2, std::vector<float>(1, 2));
  std::vector<std::shared_ptr<Work>> works;
  for (int rank = 0; rank < 2; ++rank)
    works.push_back(sum(group, rank, data[static_cast<size_t>(rank)]).value());
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(group.communicator(0).stats().parked_bytes, 0u);
  EXPECT_EQ(group.buffered_bytes_max(0), 512u);  // one message of four bytes, in the least buffer
}

}  // namespace
}  // namespace mccl
