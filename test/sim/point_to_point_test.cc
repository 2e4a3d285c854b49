// Tagged messages over the real engine in the simulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/prng.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Works = std::vector<std::shared_ptr<Work>>;

constexpr int64_t kSecondNs = 1'000'000'000;

CallOptions within(int64_t timeout_ns) {
  CallOptions options;
  options.timeout_ns = timeout_ns;
  return options;
}

class Pair {
 public:
  explicit Pair(const sim::WorldOptions& world = {}, int rank_count = 2,
                const SimGroupOptions& options = {})
      : group_(rank_count, world, options) {}

  std::shared_ptr<Work> send(int from, int to, const std::vector<int32_t>& data, int64_t tag,
                             int64_t timeout_ns = -1) {
    return group_.communicator(from)
        .send(data.data(), static_cast<int64_t>(data.size()), DataType::Int32, to, tag,
              within(timeout_ns))
        .value();
  }
  std::shared_ptr<Work> receive(int at, int from, std::vector<int32_t>& data, int64_t tag,
                                int64_t timeout_ns = -1) {
    return group_.communicator(at)
        .recv(data.data(), static_cast<int64_t>(data.size()), DataType::Int32, from, tag,
              within(timeout_ns))
        .value();
  }
  std::shared_ptr<Work> receive_any(int at, std::vector<int32_t>& data, int64_t tag) {
    return group_.communicator(at)
        .recv_any_source(data.data(), static_cast<int64_t>(data.size()), DataType::Int32, tag)
        .value();
  }
  bool run(const Works& works) { return group_.run(works); }
  // Gives the rank a reason to look at its clock after a second.
  void run_past_deadline(int rank, const Works& works) {
    group_.world().at(2 * kSecondNs, rank, [] {});
    ASSERT_TRUE(group_.run(works)) << "stuck";
  }
  void settle() {
    group_.world().run([] { return false; });
  }
  SimGroup& group() { return group_; }

 private:
  SimGroup group_;
};

std::vector<int32_t> numbers(size_t count, int32_t first) {
  std::vector<int32_t> data(count);
  std::iota(data.begin(), data.end(), first);
  return data;
}

std::vector<int64_t> shuffled_tags(int64_t count, uint64_t seed) {
  std::vector<int64_t> tags(static_cast<size_t>(count));
  std::iota(tags.begin(), tags.end(), int64_t{0});
  Prng prng(seed);
  for (size_t left = tags.size(); left > 1; --left)
    std::swap(tags[left - 1], tags[prng.below(left)]);
  return tags;
}

void expect_ok(const Works& works) {
  for (const std::shared_ptr<Work>& work : works) EXPECT_EQ(work->status().to_string(), "ok");
}

// Sends a hundred tags of `elements` in one order and receives them in another.
void exchange_shuffled(Pair& pair, size_t elements, uint64_t seed, bool receives_first) {
  constexpr int64_t kTags = 100;
  std::vector<std::vector<int32_t>> sent(kTags), got(kTags, std::vector<int32_t>(elements));
  Works works;
  const auto send_all = [&] {
    for (const int64_t tag : shuffled_tags(kTags, seed)) {
      std::vector<int32_t>& data = sent[static_cast<size_t>(tag)];
      data = numbers(elements, static_cast<int32_t>(1000 * tag));
      works.push_back(pair.send(0, 1, data, tag));
    }
  };
  const auto receive_all = [&] {
    for (const int64_t tag : shuffled_tags(kTags, seed + 1))
      works.push_back(pair.receive(1, 0, got[static_cast<size_t>(tag)], tag));
  };
  if (receives_first) receive_all();
  send_all();
  if (!receives_first) pair.settle();
  if (!receives_first) receive_all();
  ASSERT_TRUE(pair.run(works)) << "stuck";
  expect_ok(works);
  EXPECT_EQ(got, sent);
}

TEST(PointToPoint, DeliversAHundredShuffledTagsUnderAnyDelays) {
  for (uint64_t seed = 1; seed <= 20; ++seed)
    for (const size_t elements :
         {size_t{0}, size_t{1}, size_t{2048}, size_t{2049}, size_t{40'000}}) {
      sim::WorldOptions world;
      world.seed = seed;
      world.latency_jitter = 3;
      world.reads_late = seed % 2 == 0;
      Pair pair(world);
      exchange_shuffled(pair, elements, seed, seed % 3 == 0);
    }
}

TEST(PointToPoint, DeliversOneByteAtATime) {
  sim::WorldOptions world;
  world.segment_bytes_min = world.segment_bytes_max = 1;
  Pair pair(world);
  exchange_shuffled(pair, 3, 7, false);
}

TEST(PointToPoint, KeepsTheOrderOfEqualTagsOverAllLengths) {
  Pair pair;
  const std::vector<size_t> lengths = {1, 100'000, 0, 5, 2'000'000, 2, 3'000, 70'000, 1};
  std::vector<std::vector<int32_t>> sent, got;
  Works works;
  for (const size_t length : lengths) sent.push_back(numbers(length, static_cast<int32_t>(length)));
  for (const size_t length : lengths) got.emplace_back(length);
  for (const std::vector<int32_t>& data : sent) works.push_back(pair.send(0, 1, data, 9));
  for (std::vector<int32_t>& data : got) works.push_back(pair.receive(1, 0, data, 9));
  ASSERT_TRUE(pair.run(works));
  expect_ok(works);
  EXPECT_EQ(got, sent);
}

TEST(PointToPoint, BothDirectionsAtOnceDoNotWaitForOneAnother) {
  Pair pair;
  const std::vector<int32_t> left = numbers(1'000'000, 1), right = numbers(1'000'000, 7);
  std::vector<int32_t> at_left(left.size()), at_right(right.size());
  const Works works = {pair.send(0, 1, left, 0), pair.send(1, 0, right, 0),
                       pair.receive(0, 1, at_left, 0), pair.receive(1, 0, at_right, 0)};
  ASSERT_TRUE(pair.run(works));
  EXPECT_EQ(at_left, right);
  EXPECT_EQ(at_right, left);
}

// A credit takes as long as a slice to cross the link, and the link is full all the same.
TEST(PointToPoint, ALongMessageTakesTheTimeOfItsBytes) {
  // The world's link and the profile's: 306 us and 1.238 GB/s. Connecting, proof and agreement
  // cross it seven times.
  Pair pair({}, 2, {.settings = {{"MCCL_PROFILE", "paper"}}, .portions = {}, .prover = {}});
  const std::vector<int32_t> data = numbers(4 << 20, 1);
  std::vector<int32_t> got(data.size());
  const Works works = {pair.receive(1, 0, got, 0), pair.send(0, 1, data, 0)};
  ASSERT_TRUE(pair.run(works));
  EXPECT_EQ(got, data);
  const double bytes_ns = static_cast<double>(data.size()) * 4 / 1.238;
  EXPECT_LT(static_cast<double>(pair.group().world().clock().now()), bytes_ns + 8 * 306'000);
}

TEST(PointToPoint, AReceiveFromAnybodySaysWhoSent) {
  Pair pair({}, 4);
  std::vector<std::vector<int32_t>> got(3, std::vector<int32_t>(30'000));
  std::vector<std::vector<int32_t>> sent;
  Works receives, works;
  for (std::vector<int32_t>& data : got) receives.push_back(pair.receive_any(2, data, 5));
  for (const int rank : {0, 1, 3}) sent.push_back(numbers(30'000, rank));
  size_t next = 0;
  for (const int rank : {0, 1, 3}) works.push_back(pair.send(rank, 2, sent[next++], 5));
  works.insert(works.end(), receives.begin(), receives.end());
  ASSERT_TRUE(pair.run(works));
  std::vector<int> sources;
  for (size_t index = 0; index < 3; ++index) {
    const int source = receives[index]->source_rank();
    sources.push_back(source);
    EXPECT_EQ(got[index], numbers(30'000, source));
  }
  std::sort(sources.begin(), sources.end());
  EXPECT_EQ(sources, (std::vector<int>{0, 1, 3}));
}

TEST(PointToPoint, ParksNoMoreThanTheBudgetOfShortMessages) {
  Pair pair;
  const std::vector<int32_t> data = numbers(1024, 3);
  Works works;
  for (int64_t tag = 0; tag < 1000; ++tag) works.push_back(pair.send(0, 1, data, tag));
  pair.settle();
  EXPECT_EQ(pair.group().communicator(1).stats().parked_bytes, 256u * 1024);
  std::vector<std::vector<int32_t>> got(1000, std::vector<int32_t>(1024));
  for (int64_t tag = 999; tag >= 0; --tag)
    works.push_back(pair.receive(1, 0, got[static_cast<size_t>(tag)], tag));
  ASSERT_TRUE(pair.run(works));
  EXPECT_EQ(pair.group().communicator(1).stats().parked_bytes, 0u);
  for (const std::vector<int32_t>& one : got) EXPECT_EQ(one, data);
}

TEST(PointToPoint, LongMessagesWaitAtTheirSender) {
  Pair pair;
  const std::vector<int32_t> data = numbers(1'000'000, 3);
  Works works;
  for (int64_t tag = 0; tag < 10; ++tag) works.push_back(pair.send(0, 1, data, tag));
  pair.settle();
  EXPECT_EQ(pair.group().communicator(1).stats().parked_bytes, 0u);
  std::vector<std::vector<int32_t>> got(10, std::vector<int32_t>(data.size()));
  for (int64_t tag = 9; tag >= 0; --tag)
    works.push_back(pair.receive(1, 0, got[static_cast<size_t>(tag)], tag));
  ASSERT_TRUE(pair.run(works));
  for (const std::vector<int32_t>& one : got) EXPECT_EQ(one, data);
}

TEST(PointToPoint, AReceiveOfAnotherSizeEndsBothEndsWithBothSizes) {
  for (const size_t elements : {size_t{8}, size_t{100'000}})
    for (const bool receives_first : {true, false}) {
      Pair pair;
      const std::vector<int32_t> data = numbers(elements, 3);
      std::vector<int32_t> room(elements / 2);
      Works works;
      if (receives_first) works.push_back(pair.receive(1, 0, room, 4));
      works.push_back(pair.send(0, 1, data, 4));
      if (!receives_first) pair.settle();
      if (!receives_first) works.push_back(pair.receive(1, 0, room, 4));
      // A short message had left before: its sender hears of it with the next call.
      std::vector<int32_t> answer(1);
      works.push_back(pair.receive(0, 1, answer, 5));
      ASSERT_TRUE(pair.run(works)) << "stuck";
      for (const std::shared_ptr<Work>& work : {works.back(), works[receives_first ? 0 : 1]}) {
        EXPECT_EQ(work->status().code(), StatusCode::Mismatch);
        EXPECT_THAT(work->status().message(),
                    AllOf(HasSubstr(std::to_string(elements) + " elements of int32"),
                          HasSubstr("its receive has " + std::to_string(elements / 2))));
      }
    }
}

TEST(PointToPoint, AReceiveOfAnotherTypeIsAMismatch) {
  Pair pair;
  const std::vector<int32_t> data = numbers(8, 3);
  std::vector<float> room(8);
  const std::shared_ptr<Work> receive =
      pair.group().communicator(1).recv(room.data(), 8, DataType::Float32, 0, 4).value();
  pair.send(0, 1, data, 4);
  ASSERT_TRUE(pair.run({receive}));
  EXPECT_EQ(receive->status().code(), StatusCode::Mismatch);
  EXPECT_THAT(receive->status().message(), AllOf(HasSubstr("8 elements of int32 (32 bytes)"),
                                                 HasSubstr("8 of float32 (32 bytes)")));
}

TEST(PointToPoint, ATimeoutNamesPeerTagAndWhatWaitsInstead) {
  Pair pair;
  const std::vector<int32_t> data = numbers(8, 3);
  pair.send(0, 1, data, 6);
  pair.send(0, 1, data, 7);
  pair.settle();
  std::vector<int32_t> room(8);
  const std::shared_ptr<Work> receive = pair.receive(1, 0, room, 5, kSecondNs);
  pair.run_past_deadline(1, {receive});
  EXPECT_EQ(receive->status().code(), StatusCode::Timeout);
  EXPECT_THAT(receive->status().message(),
              AllOf(HasSubstr("receive of 8 int32 with tag 5 from rank 0"), HasSubstr("Timed out"),
                    HasSubstr("2 messages with other tags wait here (6, 7)")));
}

TEST(PointToPoint, ASendThatNobodyReceivesTimesOut) {
  Pair pair;
  const std::vector<int32_t> data = numbers(100'000, 3);
  const std::shared_ptr<Work> send = pair.send(0, 1, data, 6, kSecondNs);
  pair.run_past_deadline(0, {send});
  EXPECT_EQ(send->status().code(), StatusCode::Timeout);
  EXPECT_THAT(
      send->status().message(),
      AllOf(HasSubstr("send of 100000 int32 with tag 6 to rank 1"), HasSubstr("no receive")));
}

TEST(PointToPoint, WhatWasSentBeforeASenderLeftIsReceived) {
  Pair pair;
  const std::vector<int32_t> data = numbers(8, 3);
  const std::shared_ptr<Work> send = pair.send(0, 1, data, 6);
  ASSERT_TRUE(pair.run({send}));
  pair.group().destroy_communicator(0);
  pair.settle();
  std::vector<int32_t> room(8), more(8);
  const std::shared_ptr<Work> receive = pair.receive(1, 0, room, 6);
  ASSERT_TRUE(pair.run({receive}));
  EXPECT_EQ(receive->status().to_string(), "ok");
  EXPECT_EQ(room, data);
  const std::shared_ptr<Work> second = pair.receive(1, 0, more, 6);
  ASSERT_TRUE(pair.run({second}));
  EXPECT_EQ(second->status().code(), StatusCode::PeerLost);
}

TEST(PointToPoint, WhatWasSentBeforeASenderEndedIsReceived) {
  Pair pair;
  // A call of both, so that they are connected.
  std::vector<int32_t> room(8), first(1);
  const std::vector<int32_t> data = numbers(8, 3), word = numbers(1, 1);
  ASSERT_TRUE(pair.run({pair.send(1, 0, word, 0), pair.receive(0, 1, first, 0)}));
  ASSERT_TRUE(pair.run({pair.send(1, 0, data, 6)}));
  pair.group().destroy_communicator(1);
  pair.settle();
  pair.group().world().kill(1);
  pair.settle();
  const std::shared_ptr<Work> receive = pair.receive(0, 1, room, 6);
  ASSERT_TRUE(pair.run({receive}));
  EXPECT_EQ(receive->status().to_string(), "ok");
  EXPECT_EQ(room, data);
}

TEST(PointToPoint, AShortSendIsNotDoneBeforeItIsOnItsWay) {
  Pair pair({}, 3);
  // Between ranks that are not neighbours in the control tree the smaller process id connects: the
  // other one's message waits for it.
  const std::vector<int32_t> data = numbers(8, 3);
  const std::shared_ptr<Work> sends[] = {pair.send(1, 2, data, 6), pair.send(2, 1, data, 6)};
  EXPECT_NE(sends[0]->is_done(), sends[1]->is_done());
  std::vector<int32_t> left(8), right(8);
  ASSERT_TRUE(
      pair.run({sends[0], sends[1], pair.receive(1, 2, left, 6), pair.receive(2, 1, right, 6)}));
  EXPECT_EQ(left, data);
  EXPECT_EQ(right, data);
}

TEST(PointToPoint, ASendToARankThatHasLeftIsAnError) {
  Pair pair;
  const std::vector<int32_t> data = numbers(8, 3);
  std::vector<int32_t> room(8);
  ASSERT_TRUE(pair.run({pair.send(0, 1, data, 6), pair.receive(1, 0, room, 6)}));
  pair.group().destroy_communicator(1);
  pair.settle();
  const Status status =
      pair.group().communicator(0).send(data.data(), 8, DataType::Int32, 1, 6).status();
  EXPECT_EQ(status.code(), StatusCode::PeerLost);
  EXPECT_THAT(status.message(), HasSubstr("destroyed the communicator"));
}

TEST(PointToPoint, AReceiveFromAnybodyEndsWhenEverybodyHasLeft) {
  Pair pair({}, 3);
  std::vector<int32_t> room(8);
  const std::shared_ptr<Work> receive = pair.receive_any(0, room, 6);
  pair.settle();
  pair.group().destroy_communicator(1);
  pair.settle();
  EXPECT_FALSE(receive->is_done());
  pair.group().destroy_communicator(2);
  ASSERT_TRUE(pair.run({receive})) << "stuck";
  EXPECT_EQ(receive->status().code(), StatusCode::PeerLost);
}

TEST(PointToPoint, RefusesRanksThatAreNotPeers) {
  Pair pair;
  int32_t cell = 0;
  const auto refusal = [&](int peer) {
    return pair.group().communicator(0).send(&cell, 1, DataType::Int32, peer, 0).status();
  };
  EXPECT_EQ(refusal(0).to_string(),
            "invalid argument: send between rank 0 and itself is not supported; copy instead");
  EXPECT_EQ(refusal(2).to_string(),
            "invalid argument: send with rank 2: this communicator has ranks 0 to 1");
  EXPECT_EQ(refusal(-1).to_string(),
            "invalid argument: send with rank -1: this communicator has ranks 0 to 1");
}

TEST(PointToPoint, TakesNoPartInTheOrderOfCollectives) {
  Pair pair;
  std::vector<int32_t> got(50'000);
  const std::vector<int32_t> data = numbers(got.size(), 1);
  std::vector<float> left(10, 1), right(10, 2);
  const auto reduce = [&](int rank, std::vector<float>& values) {
    return pair.group()
        .communicator(rank)
        .all_reduce(values.data(), values.data(), 10, DataType::Float32, ReduceOp::Sum)
        .value();
  };
  const std::shared_ptr<Work> receive = pair.receive(1, 0, got, 0);
  const Works reduced = {reduce(0, left), reduce(1, right)};
  ASSERT_TRUE(pair.run(reduced)) << "an all_reduce waits for a receive";
  const std::shared_ptr<Work> send = pair.send(0, 1, data, 0);
  ASSERT_TRUE(pair.run({send, receive}));
  EXPECT_EQ(got, data);
  EXPECT_EQ(right, std::vector<float>(10, 3));
}

}  // namespace
}  // namespace mccl
