// The promises of include/mccl/wire.h, held against every kind of wire. The tests keep to the
// edge-triggered contract themselves (after a short write they wait for `writable`, after a read of
// nothing for `readable`), so a lost event shows as a world in which nothing happens any more.
#include <gmock/gmock.h>

#include <array>
#include <map>
#include <thread>

#include "base/check.h"
#include "conformance/wire_pump.h"
#include "conformance/wire_world.h"

namespace mccl {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::vector<WireEvent> poll_now(WireContext& context) {
  std::vector<WireEvent> events;
  context.poll(0, events);
  return events;
}

// Context 0 has connected to context 1.
struct Connection {
  std::unique_ptr<Wire> near;          // token 10
  std::unique_ptr<Wire> far;           // token 20
  std::vector<WireEvent> near_events;  // not looked at yet
  std::vector<WireEvent> far_events;

  void poll(WireWorld& world) {
    world.context(0).poll(0, near_events);
    world.context(1).poll(0, far_events);
  }
};

Connection make_connection(WireWorld& world) {
  Connection made;
  Result<std::unique_ptr<Wire>> near = world.context(0).connect(world.context(1).address(), 10);
  EXPECT_TRUE(near.is_ok()) << near.status().to_string();
  made.near = std::move(near).value();
  EXPECT_TRUE(world.advance_until([&] {
    made.poll(world);
    const bool is_acceptable = std::any_of(made.far_events.begin(), made.far_events.end(),
                                           [](const auto& event) { return event.acceptable; });
    if (is_acceptable && made.far == nullptr) made.far = world.context(1).accept(20);
    return made.far != nullptr;
  }));
  MCCL_CHECK(made.far != nullptr);
  return made;
}

// Hands each event to the pumps of its side and then pumps all.
void pump_all(WireWorld& world, Connection& connection, Writer* near_writer, Reader* near_reader,
              Writer* far_writer, Reader* far_reader) {
  connection.poll(world);
  for (const WireEvent& event : connection.near_events) {
    if (near_writer != nullptr) near_writer->on_event(event);
    if (near_reader != nullptr) near_reader->on_event(event);
  }
  for (const WireEvent& event : connection.far_events) {
    if (event.acceptable) continue;
    if (far_writer != nullptr) far_writer->on_event(event);
    if (far_reader != nullptr) far_reader->on_event(event);
  }
  connection.near_events.clear();
  connection.far_events.clear();
  for (Writer* writer : {near_writer, far_writer})
    if (writer != nullptr) writer->pump();
  for (Reader* reader : {near_reader, far_reader})
    if (reader != nullptr) reader->pump();
}

TEST_P(WireTest, BytesArriveInOrderAndWholeUnderRandomPieceSizes) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  Writer writer(*connection.near, world->bulk_bytes(), 1);
  Reader reader(*connection.far, 2);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, &reader);
    return reader.bytes() >= world->bulk_bytes() || HasFatalFailure();
  }));
  EXPECT_EQ(reader.bytes(), world->bulk_bytes());
  EXPECT_EQ(writer.status().to_string(), "ok");
}

TEST_P(WireTest, BothDirectionsStreamAtTheSameTime) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  const uint64_t near_bytes = world->bulk_bytes() / 4;
  const uint64_t far_bytes = world->bulk_bytes() / 3;
  Writer near_writer(*connection.near, near_bytes, 3);
  Writer far_writer(*connection.far, far_bytes, 4);
  Reader near_reader(*connection.near, 5);
  Reader far_reader(*connection.far, 6);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &near_writer, &near_reader, &far_writer, &far_reader);
    return (near_reader.bytes() >= far_bytes && far_reader.bytes() >= near_bytes) ||
           HasFatalFailure();
  }));
  EXPECT_EQ(near_reader.bytes(), far_bytes);
  EXPECT_EQ(far_reader.bytes(), near_bytes);
}

TEST_P(WireTest, AWriteOfThousandsOfPiecesEndsInAnEventOrInAllOfThem) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  constexpr size_t kPieceCount = 5'000;
  std::vector<iovec> pieces;
  for (size_t index = 0; index < kPieceCount; ++index)
    pieces.push_back({const_cast<char*>(pattern_at(index)), 1});
  Reader reader(*connection.far, 8);
  size_t written_count = 0;
  bool is_writable = true;
  EXPECT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    for (const WireEvent& event : connection.near_events) is_writable |= event.writable;
    if (is_writable && written_count < kPieceCount) {
      Result<size_t> taken = connection.near->write(std::span(pieces).subspan(written_count));
      EXPECT_TRUE(taken.is_ok());
      written_count += taken.value();
      is_writable = false;
    }
    pump_all(*world, connection, nullptr, nullptr, nullptr, &reader);
    return reader.bytes() == kPieceCount || HasFailure();
  }));
}

TEST_P(WireTest, AFullWireTakesNothingAndReportsWritableWhenThePeerHasDrained) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  Writer writer(*connection.near, uint64_t{1} << 40, 9);
  Reader reader(*connection.far, 10);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, nullptr);
    return writer.written_bytes() > 0;
  }));
  writer.fill();
  const uint64_t full_bytes = writer.written_bytes();

  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, &reader);
    return writer.written_bytes() > full_bytes || HasFatalFailure();
  }));
  writer.stop();
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, &reader);
    return reader.bytes() == writer.written_bytes() || HasFatalFailure();
  }));
}

// Idle for hours, then for hours with bytes that the peer does not read.
TEST_P(WireTest, CheckPeerFindsNothingWrongWithAPeerThatDoesNotRead) {
  constexpr int64_t kHourNs = 3'600'000'000'000;
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  for (const int64_t hour : {0, 1, 2})
    EXPECT_EQ(connection.near->check_peer(hour * kHourNs).to_string(), "ok");
  Writer writer(*connection.near, uint64_t{1} << 40, 19);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, nullptr);
    return writer.written_bytes() > 0;
  }));
  writer.fill();
  for (const int64_t hour : {3, 4, 5})
    EXPECT_EQ(connection.near->check_peer(hour * kHourNs).to_string(), "ok");
  EXPECT_EQ(write_bytes(*connection.near, pattern_at(0), 1).status().to_string(), "ok");
}

TEST_P(WireTest, CheckPeerLeavesOtherFailuresToReadAndWrite) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  connection.near->close();
  EXPECT_EQ(connection.near->check_peer(0).to_string(), "ok");
  char byte = 0;
  EXPECT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    return !read_bytes(*connection.far, &byte, 1).is_ok();
  }));
  EXPECT_EQ(connection.far->check_peer(0).to_string(), "ok");
}

TEST_P(WireTest, TheEndOfTheStreamIsPeerLostOnceTheBytesAreDrainedAndStaysSo) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  constexpr uint64_t kBytes = 100'000;
  Writer writer(*connection.near, kBytes, 11);
  Reader reader(*connection.far, 12);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr,
             world->close_delivers() ? nullptr : &reader);
    return world->close_delivers() ? writer.is_done() : reader.bytes() == kBytes;
  }));
  EXPECT_EQ(reader.status().code(), StatusCode::Ok);
  connection.near->close();

  EXPECT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    for (const WireEvent& event : connection.far_events) reader.on_event(event);
    connection.far_events.clear();
    reader.pump();
    return !reader.status().is_ok() || HasFatalFailure();
  }));
  EXPECT_EQ(reader.bytes(), kBytes);
  EXPECT_EQ(reader.status().code(), StatusCode::PeerLost) << reader.status().to_string();
  char byte = 0;
  EXPECT_EQ(read_bytes(*connection.far, &byte, 1).status().to_string(),
            reader.status().to_string());
}

TEST_P(WireTest, WritingToAPeerThatClosedEndsInPeerLost) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  Writer writer(*connection.near, uint64_t{1} << 40, 13);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, nullptr);
    return writer.written_bytes() > 0;
  }));
  connection.far->close();
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, nullptr);
    return !writer.status().is_ok();
  }));
  EXPECT_EQ(writer.status().code(), StatusCode::PeerLost) << writer.status().to_string();
  EXPECT_EQ(write_bytes(*connection.near, pattern_at(0), 1).status().to_string(),
            writer.status().to_string());
}

TEST_P(WireTest, APeerThatClosedWithBytesUnreadIsLostInBothDirections) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  Writer writer(*connection.near, 1'000, 15);
  Reader reader(*connection.near, 16);
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, &writer, nullptr, nullptr, nullptr);
    return writer.is_done();
  }));
  connection.far->close();
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, nullptr, &reader, nullptr, nullptr);
    return !reader.status().is_ok();
  }));
  EXPECT_EQ(reader.status().code(), StatusCode::PeerLost) << reader.status().to_string();
  Status failure;
  EXPECT_TRUE(world->advance_until([&] {
    failure = write_bytes(*connection.near, pattern_at(0), 1).status();
    return !failure.is_ok();
  }));
  EXPECT_EQ(failure.code(), StatusCode::PeerLost) << failure.to_string();
}

TEST_P(WireTest, ClosingTwiceIsClosingOnceAndEndsBothDirectionsHere) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  const std::string name = connection.near->describe();
  connection.near->close();
  connection.near->close();
  char byte = 0;
  EXPECT_THAT(write_bytes(*connection.near, &byte, 1).status().code(),
              AnyOf(StatusCode::Network, StatusCode::PeerLost));
  EXPECT_THAT(read_bytes(*connection.near, &byte, 1).status().code(),
              AnyOf(StatusCode::Network, StatusCode::PeerLost));
  EXPECT_EQ(connection.near->describe(), name);
  EXPECT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    return !read_bytes(*connection.far, &byte, 1).is_ok();
  }));
}

TEST_P(WireTest, ADestroyedWireIsAPeerLostAndReportsNoEventOfItsOwn) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  ASSERT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    return write_bytes(*connection.near, pattern_at(0), 1).value() == 1;
  }));
  Reader reader(*connection.far, 14);
  connection.near.reset();
  connection.near_events.clear();
  EXPECT_TRUE(world->advance_until([&] {
    pump_all(*world, connection, nullptr, nullptr, nullptr, &reader);
    return !reader.status().is_ok();
  }));
  EXPECT_EQ(reader.status().code(), StatusCode::PeerLost);

  // The far wire's event is waiting when it is destroyed, or has been taken; neither may come back.
  Connection other = make_connection(*world);
  connection.far.reset();
  other.far.reset();
  for (const WireEvent& event : poll_now(world->context(1))) EXPECT_NE(event.token, 20u);
}

TEST_P(WireTest, NothingIsWrittenOrReadByEmptyPieces) {
  const auto world = GetParam().make_world(2);
  Connection connection = make_connection(*world);
  std::array<iovec, 2> empty{};
  EXPECT_EQ(connection.near->write(empty).value(), 0u);
  EXPECT_EQ(connection.near->read(empty).value(), 0u);
  EXPECT_EQ(connection.far->read(std::span<const iovec>()).value(), 0u);
  char byte = 0;
  EXPECT_EQ(read_bytes(*connection.far, &byte, 1).value(), 0u) << "the wire is quiet, not ended";
  bool is_readable = false;
  EXPECT_TRUE(world->advance_until([&] {
    connection.poll(*world);
    for (const WireEvent& event : connection.near_events)
      if (event.writable) (void)write_bytes(*connection.near, pattern_at(0), 1);
    for (const WireEvent& event : connection.far_events) is_readable |= event.readable;
    return is_readable;
  }));
  EXPECT_EQ(connection.far->read(empty).value(), 0u);
  EXPECT_EQ(read_bytes(*connection.far, &byte, 1).value(), 1u) << "bytes wait, it has not ended";
}

TEST_P(WireTest, ANewWireIsQuietAndNeverBlocks) {
  const auto world = GetParam().make_world(2);
  Result<std::unique_ptr<Wire>> made = world->context(0).connect(world->context(1).address(), 10);
  char byte = 0;
  // Whether it is connected by now is the network's affair; that it has failed is not.
  EXPECT_EQ(read_bytes(*made.value(), &byte, 1).value(), 0u);
  EXPECT_TRUE(write_bytes(*made.value(), &byte, 1).is_ok());
  EXPECT_NE(made.value()->describe(), "");
}

TEST_P(WireTest, ConnectingToADeadAddressFailsOnTheWireWithTheAddressInTheMessage) {
  const auto world = GetParam().make_world(1);
  const std::string dead = world->dead_address();
  Result<std::unique_ptr<Wire>> made = world->context(0).connect(dead, 99);
  ASSERT_TRUE(made.is_ok());
  Wire& wire = *made.value();
  bool has_event = false;
  Status failure;
  EXPECT_TRUE(world->advance_until([&] {
    for (const WireEvent& event : poll_now(world->context(0))) has_event |= event.token == 99;
    failure = write_bytes(wire, pattern_at(0), 1).status();
    return has_event && !failure.is_ok();
  }));
  EXPECT_THAT(failure.code(), AnyOf(StatusCode::Network, StatusCode::PeerLost));
  EXPECT_THAT(failure.message(), HasSubstr(dead));
  char byte = 0;
  EXPECT_EQ(read_bytes(wire, &byte, 1).status().to_string(), failure.to_string());
}

TEST_P(WireTest, AnAddressOfAnotherKindIsAnInvalidArgument) {
  const auto world = GetParam().make_world(1);
  for (const char* address : {"", "pigeon://1", "192.168.1.7"}) {
    Result<std::unique_ptr<Wire>> made = world->context(0).connect(address, 1);
    EXPECT_EQ(made.status().code(), StatusCode::InvalidArgument) << address;
  }
}

TEST_P(WireTest, AcceptIsNullWhenNothingWaits) {
  const auto world = GetParam().make_world(2);
  EXPECT_EQ(world->context(1).accept(1), nullptr);
  Connection connection = make_connection(*world);
  EXPECT_EQ(world->context(1).accept(1), nullptr);
}

// One end of a connection that says and hears one word.
struct TalkingEnd {
  std::unique_ptr<Wire> wire;
  uint64_t token = 0;
  size_t written_bytes = 0;
  size_t read_bytes = 0;
  uint64_t heard = 0;
};

void say(TalkingEnd& end, uint64_t word) {
  if (end.written_bytes == sizeof word) return;
  Result<size_t> taken =
      write_bytes(*end.wire, reinterpret_cast<const char*>(&word) + end.written_bytes,
                  sizeof word - end.written_bytes);
  ASSERT_TRUE(taken.is_ok()) << taken.status().to_string();
  end.written_bytes += taken.value();
}

void hear(TalkingEnd& end) {
  while (end.read_bytes < sizeof end.heard) {
    Result<size_t> got = read_bytes(*end.wire, reinterpret_cast<char*>(&end.heard) + end.read_bytes,
                                    sizeof end.heard - end.read_bytes);
    ASSERT_TRUE(got.is_ok()) << got.status().to_string();
    if (got.value() == 0) return;
    end.read_bytes += got.value();
  }
}

// Both contexts connect to each other many times. Each wire says its connector's token first, and
// the other end says it back.
TEST_P(WireTest, ManyConnectionsReportTheirOwnTokens) {
  constexpr uint64_t kCount = 60;
  // All 64 bits belong to the caller.
  const auto token_of = [](uint64_t index) { return index % 2 == 0 ? index / 2 : ~(index / 2); };
  const auto world = GetParam().make_world(2);
  std::array<std::map<uint64_t, TalkingEnd>, 2> made;  // by token
  std::array<std::map<uint64_t, TalkingEnd>, 2>
      accepted;  // by token; tokens follow the connector's
  for (size_t side = 0; side < 2; ++side) {
    for (uint64_t index = 0; index < kCount; ++index) {
      const std::string address = world->context(1 - side).address();
      const uint64_t token = token_of(index);
      made[side][token] = {world->context(side).connect(address, token).value(), token};
    }
  }
  const auto step_side = [&](size_t side) {
    for (const WireEvent& event : poll_now(world->context(side))) {
      if (event.acceptable) {
        while (true) {
          const uint64_t token = token_of(kCount + accepted[side].size());
          std::unique_ptr<Wire> wire = world->context(side).accept(token);
          if (wire == nullptr) break;
          accepted[side][token] = {std::move(wire), token};
        }
        continue;
      }
      std::map<uint64_t, TalkingEnd>& ends =
          made[side].count(event.token) ? made[side] : accepted[side];
      ASSERT_EQ(ends.count(event.token), 1u) << "an event with the unknown token " << event.token;
      TalkingEnd& end = ends[event.token];
      if (event.writable && &ends == &made[side]) say(end, end.token);
      if (event.readable) hear(end);
      const bool has_heard = end.read_bytes == sizeof end.heard;
      if (has_heard && &ends == &accepted[side]) say(end, end.heard);
    }
  };
  EXPECT_TRUE(world->advance_until([&] {
    step_side(0);
    step_side(1);
    bool is_done = true;
    for (const auto& ends : made)
      for (const auto& entry : ends) is_done &= entry.second.read_bytes == sizeof(uint64_t);
    return is_done || HasFatalFailure();
  }));
  for (size_t side = 0; side < 2; ++side) {
    EXPECT_EQ(accepted[side].size(), kCount);
    for (const auto& [token, end] : made[side]) EXPECT_EQ(end.heard, token);
  }
}

// Each context on a thread of its own, blocking: the reader drains while the writer writes, so
// short writes go on in the middle of a piece.
TEST_P(WireTest, TwoThreadsThatBlockMoveAllBytes) {
  const auto world = GetParam().make_world(2);
  if (!world->can_block()) GTEST_SKIP() << "nothing blocks in virtual time";
  Connection connection = make_connection(*world);
  Writer writer(*connection.near, world->bulk_bytes(), 17);
  std::thread writer_thread([&] {
    while (true) {
      for (const WireEvent& event : connection.near_events) writer.on_event(event);
      connection.near_events.clear();
      writer.pump();
      if (writer.is_done() || !writer.status().is_ok()) return;
      world->context(0).poll(-1, connection.near_events);
    }
  });
  Reader reader(*connection.far, 18);
  while (true) {
    for (const WireEvent& event : connection.far_events) reader.on_event(event);
    connection.far_events.clear();
    reader.pump();
    if (reader.bytes() >= world->bulk_bytes() || !reader.status().is_ok() || HasFatalFailure())
      break;
    world->context(1).poll(-1, connection.far_events);
  }
  if (HasFatalFailure()) connection.far->close();  // ends the writer, too
  writer_thread.join();
  EXPECT_EQ(reader.bytes(), world->bulk_bytes());
}

TEST_P(WireTest, WakeEndsThePollThatBlocksOrTheNextOne) {
  const auto world = GetParam().make_world(2);
  if (!world->can_block()) GTEST_SKIP() << "nothing blocks in virtual time";
  WireContext& context = world->context(0);
  std::vector<WireEvent> events;
  context.wake();
  context.poll(-1, events);
  for (int turn = 0; turn < 100; ++turn) {
    std::thread waker([&] { context.wake(); });
    context.poll(-1, events);
    waker.join();
  }
  EXPECT_TRUE(events.empty());
}

TEST_P(WireTest, APollThatBlocksEndsWithItsTimeoutOrWithAnEvent) {
  const auto world = GetParam().make_world(2);
  if (!world->can_block()) GTEST_SKIP() << "nothing blocks in virtual time";
  std::vector<WireEvent> events;
  world->context(1).poll(1'000, events);
  EXPECT_TRUE(events.empty());
  std::unique_ptr<Wire> near = world->context(0).connect(world->context(1).address(), 10).value();
  world->context(1).poll(-1, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].acceptable);
}

}  // namespace
}  // namespace mccl
