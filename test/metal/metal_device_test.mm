// What metal_device.mm asks of torch: addresses, streams, copies of private storage, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#import "metal/fake_runtime.h"
#import "metal/torch_world.h"

namespace mccl {
namespace {

using fake_metal::device_bytes;
using fake_metal::make_torch_tensor;
using fake_metal::TensorLayout;
using fake_metal::TorchWorld;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(MetalDevice, FindsTheFirstElementBehindTheStorageOffset) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(80, MTLResourceStorageModeShared);
  const at::Tensor tensor =
      make_torch_tensor(buffer, 80, {.sizes = {2, 3}, .strides = {3, 1}, .storage_offset = 4});
  EXPECT_EQ(world.device().host_address(tensor), device_bytes(buffer) + 32);
}

TEST(MetalDevice, AsksTorchsAllocatorFirst) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(16, MTLResourceStorageModePrivate);
  std::byte elsewhere[16];
  fake_metal::set_shared_buffers([&](const void* asked) -> const void* {
    return asked == static_cast<const void*>(buffer) ? elsewhere : nullptr;
  });
  const at::Tensor tensor =
      make_torch_tensor(buffer, 16, {.sizes = {1}, .strides = {1}, .storage_offset = 1});
  EXPECT_EQ(world.device().host_address(tensor), elsewhere + 8);
}

TEST(MetalDevice, PrivateStorageHasNoAddress) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(16, MTLResourceStorageModePrivate);
  const at::Tensor tensor = make_torch_tensor(buffer, 16, {.sizes = {2}, .strides = {1}});
  EXPECT_EQ(world.device().host_address(tensor), nullptr);
}

TEST(MetalDevice, ATensorThatLeavesItsStorageIsRefused) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(80, MTLResourceStorageModeShared);
  // Elements 1 + 0, 1 + 4, 1 + 8, and one more each: the last is element 10, of 80 bytes.
  const TensorLayout layout = {.sizes = {3, 2}, .strides = {4, 1}, .storage_offset = 1};
  EXPECT_EQ(error_of([&] { world.device().host_address(make_torch_tensor(buffer, 80, layout)); }),
            "mccl: a tensor on mps:0 ends at byte 88 of a storage of 80");
  EXPECT_EQ(error_of([&] { world.device().host_address(make_torch_tensor(buffer, 88, layout)); }),
            "mccl: a tensor on mps:0 ends at byte 88 of a Metal buffer of 80");
}

TEST(MetalDevice, ATensorWithoutElementsNeedsNoBytes) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(8, MTLResourceStorageModeShared);
  const at::Tensor tensor =
      make_torch_tensor(buffer, 8, {.sizes = {0, 5}, .strides = {5, 1}, .storage_offset = 1});
  EXPECT_EQ(world.device().host_address(tensor), device_bytes(buffer) + 8);
}

TEST(MetalDevice, AStreamHasOneHandOff) {
  TorchWorld world;
  const std::shared_ptr<HandOff> first = world.device().current_stream();
  EXPECT_EQ(world.device().current_stream(), first);
  const size_t queue_index = world.gpu().add_queue();
  fake_metal::Stream other([&] { return world.gpu().make_sink(queue_index); }, world.metal_device(),
                           world.gpu().violations());
  fake_metal::set_current_stream(make_torch_stream(other));
  EXPECT_NE(world.device().current_stream(), first);
}

// A signal is encoded and committed where the kernels are, a wait on the stream of its hand-off.
TEST(MetalDevice, EveryStreamHasItsOwnTickets) {
  TorchWorld world;
  const std::shared_ptr<HandOff> first = world.device().current_stream();
  const size_t queue_index = world.gpu().add_queue();
  fake_metal::Stream other([&] { return world.gpu().make_sink(queue_index); }, world.metal_device(),
                           world.gpu().violations());
  fake_metal::set_current_stream(make_torch_stream(other));
  const std::shared_ptr<HandOff> second = world.device().current_stream();

  std::vector<int> ran;
  world.stream().encode_kernel([&] { ran.push_back(1); });
  other.encode_kernel([&] { ran.push_back(2); });
  const uint64_t of_second = second->signal_producer().value();
  world.gpu().run();
  EXPECT_THAT(ran, ElementsAre(2));
  EXPECT_TRUE(second->await_producer(of_second, [] {}));
  const uint64_t of_first = first->signal_producer().value();
  world.gpu().run();
  EXPECT_THAT(ran, ElementsAre(2, 1));
  EXPECT_TRUE(first->await_producer(of_first, [] {}));
  first->raise_consumer(of_first);
  second->raise_consumer(of_second);
  EXPECT_THAT(world.gpu().violations().list(), IsEmpty());
}

// Nothing may be thrown through a block that a queue runs.
TEST(MetalDevice, WhatTorchThrowsComesBackAsAStatus) {
  TorchWorld world;
  const std::shared_ptr<HandOff> hand_off = world.device().current_stream();
  fake_metal::fail_next_encoding("out of command buffers");
  const Result<uint64_t> ticket = hand_off->signal_producer();
  EXPECT_THAT(ticket.status().to_string(),
              HasSubstr("torch's mps stream failed: out of command buffers"));
  // The ticket is lost, the next ones are not.
  const uint64_t next = hand_off->signal_producer().value();
  world.gpu().run();
  EXPECT_TRUE(hand_off->await_producer(next, [] {}));
  hand_off->raise_consumer(next);
  EXPECT_THAT(world.gpu().violations().list(), IsEmpty());
}

// The signal may come after the engine has looked and before it is heard; Metal may then call the
// block or not. The engine is told once.
TEST(MetalDevice, TheEngineIsToldOnceWhenTheSignalComesWhileItAsks) {
  using fake_metal::Event;
  for (const auto if_reached : {Event::IfReached::IsSilent, Event::IfReached::CallsBlock}) {
    TorchWorld world;
    world.gpu().if_reached = if_reached;
    world.gpu().on_notify = [&] { world.gpu().run(); };
    const std::shared_ptr<HandOff> hand_off = world.device().current_stream();
    const uint64_t ticket = hand_off->signal_producer().value();
    int told = 0;
    if (hand_off->await_producer(ticket, [&] { ++told; })) ++told;
    EXPECT_EQ(told, 1);
    hand_off->raise_consumer(ticket);
  }
}

TEST(MetalDevice, EventsAreUsedAgain) {
  TorchWorld world;
  const std::shared_ptr<HandOff> hand_off = world.device().current_stream();
  for (int round = 0; round < 1000; ++round) {
    std::vector<uint64_t> tickets;
    for (int call = 0; call < 3; ++call) tickets.push_back(hand_off->signal_producer().value());
    for (const uint64_t ticket : tickets) {
      ASSERT_TRUE(hand_off->wait_consumer(ticket).is_ok());
      hand_off->raise_consumer(ticket);
    }
    world.gpu().run();
  }
  EXPECT_EQ(world.gpu().event_count, 4u);  // the producers' and three
}

TEST(MetalDevice, BlocksGoWithTheirTickets) {
  TorchWorld world;
  const size_t blocks_before = fake_metal::heap_block_count();
  const std::shared_ptr<HandOff> hand_off = world.device().current_stream();
  auto captured = std::make_shared<int>(1);
  for (int round = 0; round < 10; ++round) {
    const uint64_t ticket = hand_off->signal_producer().value();
    EXPECT_FALSE(hand_off->await_producer(ticket, [captured] { ++*captured; }));
    world.gpu().run();
    hand_off->raise_consumer(ticket);
  }
  EXPECT_EQ(*captured, 11);
  EXPECT_EQ(captured.use_count(), 1);
  EXPECT_EQ(fake_metal::heap_block_count(), blocks_before);
}

// In and out by the flags: an input is not copied back, an output not in.
TEST(MetalDevice, PrivateTensorsAreCopiedAsTheCallUsesThem) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(6 * 8, MTLResourceStorageModePrivate);
  auto* cells = reinterpret_cast<int64_t*>(device_bytes(buffer));
  std::iota(cells, cells + 6, 1);
  auto part = [&](int64_t offset) {
    return make_torch_tensor(buffer, 48, {.sizes = {2}, .strides = {1}, .storage_offset = offset});
  };
  const std::vector<StagedTensor> tensors = {
      {.tensor = part(0), .is_read = true, .is_written = false},
      {.tensor = part(2), .is_read = false, .is_written = true},
      {.tensor = part(4), .is_read = true, .is_written = true}};
  StagedCall call = world.device().make_staged_call(tensors).value();
  ASSERT_EQ(call.addresses.size(), 3u);
  const uint64_t ticket = call.hand_off->signal_producer().value();
  world.gpu().run();
  ASSERT_TRUE(call.hand_off->await_producer(ticket, [] {}));
  std::vector<int64_t> seen;
  for (void* address : call.addresses) {
    auto* numbers = static_cast<int64_t*>(address);
    seen.insert(seen.end(), {numbers[0], numbers[1]});
    numbers[0] = numbers[1] = 100;
  }
  EXPECT_THAT(seen, ElementsAre(1, 2, 0, 0, 5, 6));
  call.hand_off->raise_consumer(ticket);
  int wakes = 0;
  EXPECT_FALSE(call.await_returned([&] { ++wakes; }));
  call = {};  // nor need the caller hold it longer
  world.gpu().run();
  EXPECT_EQ(wakes, 1);
  EXPECT_THAT(std::vector<int64_t>(cells, cells + 6), ElementsAre(1, 2, 100, 100, 100, 100));
  EXPECT_THAT(world.gpu().violations().list(), IsEmpty());
}

// torch would give the memory to another tensor when the last reference goes.
TEST(MetalDevice, PrivateTensorsAreHeldUntilTheyAreCopiedBack) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(8, MTLResourceStorageModePrivate);
  at::Tensor tensor = make_torch_tensor(buffer, 8, {.sizes = {1}, .strides = {1}});
  std::vector<StagedTensor> tensors = {{.tensor = tensor}};
  StagedCall call = world.device().make_staged_call(tensors).value();
  tensors.clear();
  const uint64_t ticket = call.hand_off->signal_producer().value();
  world.gpu().run();
  ASSERT_TRUE(call.hand_off->await_producer(ticket, [] {}));
  call.hand_off->raise_consumer(ticket);
  call = {};
  EXPECT_EQ(tensor.use_count(), 2u);
  world.gpu().run();
  EXPECT_EQ(tensor.use_count(), 1u);
}

// A copy back must not stand behind another call's copy in, whose kernels stand behind the copy
// back.
TEST(MetalDevice, CopiesOfTwoCallsDoNotWaitForEachOther) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(16, MTLResourceStorageModePrivate);
  auto begin = [&](int64_t offset) {
    const std::vector<StagedTensor> tensors = {
        {.tensor = make_torch_tensor(buffer, 16,
                                     {.sizes = {1}, .strides = {1}, .storage_offset = offset})}};
    return world.device().make_staged_call(tensors).value();
  };
  const StagedCall first = begin(0);
  const uint64_t first_ticket = first.hand_off->signal_producer().value();
  ASSERT_TRUE(first.hand_off->wait_consumer(first_ticket).is_ok());
  const StagedCall second = begin(1);
  const uint64_t second_ticket = second.hand_off->signal_producer().value();
  world.gpu().run();
  ASSERT_TRUE(first.hand_off->await_producer(first_ticket, [] {}));
  EXPECT_FALSE(second.hand_off->await_producer(second_ticket, [] {}));
  first.hand_off->raise_consumer(first_ticket);
  world.gpu().run();
  EXPECT_TRUE(second.hand_off->await_producer(second_ticket, [] {}));
  second.hand_off->raise_consumer(second_ticket);
  world.gpu().run();
}

TEST(MetalDevice, ACallMayFailInAnyStateOfItsCopies) {
  TorchWorld world;
  id<MTLBuffer> buffer = world.make_buffer(8, MTLResourceStorageModePrivate);
  auto* cell = reinterpret_cast<int64_t*>(device_bytes(buffer));
  *cell = 7;
  const std::vector<StagedTensor> tensors = {
      {.tensor = make_torch_tensor(buffer, 8, {.sizes = {1}, .strides = {1}})}};
  const StagedCall call = world.device().make_staged_call(tensors).value();
  const uint64_t ticket = call.hand_off->signal_producer().value();
  bool has_run = false;
  ASSERT_TRUE(call.hand_off->wait_consumer(ticket).is_ok());
  world.stream().encode_kernel([&] { has_run = true; });
  world.stream().commit_kernels();
  *static_cast<int64_t*>(call.addresses[0]) = 100;
  call.hand_off->raise_consumer(ticket);
  world.gpu().run();
  EXPECT_TRUE(has_run);
  EXPECT_EQ(*cell, 7);
  EXPECT_THAT(world.gpu().violations().list(), IsEmpty());
}

}  // namespace
}  // namespace mccl
