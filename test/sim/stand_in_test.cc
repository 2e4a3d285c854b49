// Calls whose buffers stand in for other memory: order goes by that memory, and the copies are made
// when it is the call's turn (law L3).
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "support/sim_group.h"

namespace mccl {
namespace {

using Works = std::vector<std::shared_ptr<Work>>;

// The even elements of `memory`, reduced through a copy.
std::shared_ptr<Work> reduce_every_other(Communicator& communicator, std::vector<float>& memory,
                                         Status end = Status::ok()) {
  const auto room = std::make_shared<std::vector<float>>(memory.size() / 2);
  auto stand_in = std::make_shared<StandIn>();
  const StandIn::Range all{memory.data(), static_cast<int64_t>(memory.size() * sizeof(float))};
  stand_in->reads = stand_in->writes = {all};
  stand_in->copy_in = [room, &memory] {
    for (size_t i = 0; i < room->size(); ++i) (*room)[i] = memory[2 * i];
    return Status::ok();
  };
  stand_in->copy_out = [room, &memory, end] {
    for (size_t i = 0; i < room->size(); ++i) memory[2 * i] = (*room)[i];
    return end;
  };
  CallOptions options;
  options.stand_in = std::move(stand_in);
  float* data = room->data();
  return communicator
      .all_reduce(data, data, static_cast<int64_t>(room->size()), DataType::Float32, ReduceOp::Sum,
                  std::move(options))
      .value();
}

std::shared_ptr<Work> reduce_all(Communicator& communicator, std::vector<float>& memory) {
  return communicator
      .all_reduce(memory.data(), memory.data(), static_cast<int64_t>(memory.size()),
                  DataType::Float32, ReduceOp::Sum)
      .value();
}

TEST(StandIn, CallsOnTheMemoryItStandsForKeepTheirOrder) {
  for (const size_t elements : {size_t{8}, size_t{200'000}}) {
    SimGroup group(2, {});
    std::vector<std::vector<float>> memory(2, std::vector<float>(elements, 1));
    Works works;
    for (int rank = 0; rank < 2; ++rank) {
      Communicator& communicator = group.communicator(rank);
      std::vector<float>& mine = memory[static_cast<size_t>(rank)];
      works.push_back(reduce_every_other(communicator, mine));
      works.push_back(reduce_every_other(communicator, mine));
      works.push_back(reduce_all(communicator, mine));
      works.push_back(reduce_every_other(communicator, mine));
    }
    ASSERT_TRUE(group.run(works));
    for (const std::vector<float>& mine : memory) {
      EXPECT_EQ(mine[0], 16);
      EXPECT_EQ(mine[1], 2);
      EXPECT_EQ(mine[elements - 2], 16);
      EXPECT_EQ(mine[elements - 1], 2);
    }
  }
}

TEST(StandIn, AnErrorOfACopyEndsTheCall) {
  SimGroup group(2, {});
  std::vector<float> left(8, 1), right(8, 1);
  const Status broken(StatusCode::Internal, "the copy broke");
  const Works works = {reduce_every_other(group.communicator(0), left, broken),
                       reduce_every_other(group.communicator(1), right)};
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(works[0]->status().to_string(), "internal: the copy broke");
}

TEST(StandIn, AMessageWhoseCopyFailsIsNotSent) {
  SimGroup group(2, {});
  std::vector<float> sent(2), received(2, 7);
  CallOptions sending;
  auto out = std::make_shared<StandIn>();
  out->copy_in = [] { return Status(StatusCode::Internal, "the copy broke"); };
  sending.stand_in = std::move(out);
  const Works works = {
      group.communicator(1).recv(received.data(), 2, DataType::Float32, 0, 0).value(),
      group.communicator(0).send(sent.data(), 2, DataType::Float32, 1, 0, sending).value()};
  ASSERT_TRUE(group.run(works));
  for (const std::shared_ptr<Work>& work : works)
    EXPECT_EQ(work->status().to_string(), "internal: the copy broke");
  EXPECT_EQ(received, (std::vector<float>{7, 7}));
}

TEST(StandIn, AMessageIsCopiedAtBothEnds) {
  SimGroup group(2, {});
  const std::vector<float> source = {1, 9, 2, 9};
  std::vector<float> target(4, 0), sent(2), received(2);
  CallOptions sending, receiving;
  auto out = std::make_shared<StandIn>();
  out->copy_in = [&] {
    sent = {source[0], source[2]};
    return Status::ok();
  };
  auto in = std::make_shared<StandIn>();
  in->copy_out = [&] {
    target[0] = received[0];
    target[2] = received[1];
    return Status::ok();
  };
  sending.stand_in = std::move(out);
  receiving.stand_in = std::move(in);
  const Works works = {
      group.communicator(0).send(sent.data(), 2, DataType::Float32, 1, 0, sending).value(),
      group.communicator(1).recv(received.data(), 2, DataType::Float32, 0, 0, receiving).value()};
  ASSERT_TRUE(group.run(works));
  EXPECT_EQ(target, (std::vector<float>{1, 0, 2, 0}));
}

}  // namespace
}  // namespace mccl
