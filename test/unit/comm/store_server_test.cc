// The server of the TCP store against clients in bad faith, and against too many of them.
#include "comm/store_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/store_message.h"
#include "store_clients.h"

namespace mccl {
namespace {

// Read by a server's thread, moved by a test.
class SharedClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  void advance(TimeNs time_ns) { now_ += time_ns; }

 private:
  std::atomic<TimeNs> now_{0};
};

TEST(StoreServer, ClosesTheConnectionOfWhoeverSpeaksAnotherProtocol) {
  const auto server = make_server();
  RawClient stranger(server->port());
  stranger.send("GET / HTTP/1.1\r\nHost: store\r\n\r\n");
  EXPECT_EQ(stranger.read_to_end(), "");
  EXPECT_TRUE(connect_to(*server)->set("still", "serving").is_ok());
}

TEST(StoreServer, RefusesLengthsAboveItsLimitsByTheHeaderAlone) {
  const auto server = make_server();
  StoreRequestHeader long_key;
  long_key.key_bytes = 257;
  StoreRequestHeader long_value;
  long_value.kind = StoreRequestKind::Set;
  long_value.value_bytes = kStoreValueBytesMax + 1;
  StoreRequestHeader get_with_value;
  get_with_value.value_bytes = 1;
  StoreRequestHeader unknown;
  unknown.kind = static_cast<StoreRequestKind>(9);
  for (const StoreRequestHeader& header : {long_key, long_value, get_with_value, unknown}) {
    RawClient client(server->port());
    client.send(bytes_of(header));
    EXPECT_EQ(client.read_to_end(), "");
  }
}

TEST(StoreServer, CutsOffAClientThatDoesNotWaitForItsAnswer) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  StoreRequestHeader parked;
  parked.key_bytes = 1;
  parked.timeout_ns = kLongNs;
  RawClient client(server->port());
  client.send(bytes_of(parked) + "k");
  // When the second answer is here, a round that began after the client's request has ended.
  EXPECT_EQ(get_value(*store, "other", 0), std::nullopt);
  EXPECT_EQ(get_value(*store, "other", 0), std::nullopt);
  client.send(bytes_of(parked) + "k");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(StoreServer, CutsOffAClientThatSendsTwoRequestsAtOnce) {
  const auto server = make_server();
  StoreRequestHeader parked;
  parked.key_bytes = 1;
  parked.timeout_ns = kLongNs;
  RawClient client(server->port());
  client.send(bytes_of(parked) + "k" + bytes_of(parked) + "k");
  EXPECT_EQ(client.read_to_end(), "");
}

TEST(StoreServer, ReadsARequestThatArrivesByteByByte) {
  const auto server = make_server();
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Set;
  header.key_bytes = 3;
  header.value_bytes = 5;
  RawClient client(server->port());
  for (const char byte : bytes_of(header) + "keyvalue") client.send(std::string(1, byte));
  EXPECT_EQ(get_value(*connect_to(*server), "key", kLongNs), "value");
}

StoreRequestHeader set_header(size_t key_bytes, size_t value_bytes) {
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Set;
  header.key_bytes = static_cast<uint16_t>(key_bytes);
  header.value_bytes = static_cast<uint32_t>(value_bytes);
  return header;
}

// How often a test goes on asking for what the server does once it has read what lies before it.
constexpr int kTriesMax = 100'000;

TEST(StoreServer, EndsARequestThatDoesNotArriveInItsTime) {
  SharedClock clock;
  const auto server =
      make_store_server("127.0.0.1", 0, clock, {.request_ns = 30 * kNsPerSecond}).value();
  const auto store = connect_to(*server);
  RawClient half(server->port()), idle(server->port());
  idle.ask();
  half.ask();
  half.send(bytes_of(set_header(1, 4)) + "kva");
  for (int tries = 0; tries < kTriesMax && !half.is_closed(); ++tries) {
    clock.advance(30 * kNsPerSecond);
    EXPECT_EQ(get_value(*store, "never set", 0), std::nullopt);
  }
  EXPECT_TRUE(half.is_closed());
  EXPECT_FALSE(idle.is_closed());  // has begun no request
}

TEST(StoreServer, EndsTheConnectionThatWasIdleForLongestWhenItIsFull) {
  SharedClock clock;
  const auto server = make_store_server("127.0.0.1", 0, clock, {.connections_max = 3}).value();
  RawClient first(server->port()), second(server->port()), third(server->port());
  first.ask();
  second.ask();
  third.ask();
  first.ask();
  RawClient fourth(server->port()), fifth(server->port());
  fourth.ask();
  EXPECT_EQ(second.read_to_end(), "");
  fifth.ask();
  EXPECT_EQ(third.read_to_end(), "");
  EXPECT_FALSE(first.is_closed());
}

TEST(StoreServer, AStoreWhoseIdleConnectionWasEndedConnectsAgain) {
  SharedClock clock;
  const auto server = make_store_server("127.0.0.1", 0, clock, {.connections_max = 1}).value();
  const auto first = connect_to(*server);
  EXPECT_TRUE(first->set("color", "blue").is_ok());
  const auto second = connect_to(*server);
  EXPECT_EQ(get_value(*second, "color", 0), "blue");  // the first store's place
  EXPECT_EQ(get_value(*first, "color", 0), "blue");
  EXPECT_TRUE(second->set("color", "red").is_ok());
  EXPECT_EQ(get_value(*first, "color", 0), "red");
}

TEST(StoreServer, AnnouncedBytesTakeNoRoomFromThoseThatArrive) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  std::vector<std::unique_ptr<RawClient>> announcers;
  for (int count = 0; count < 65; ++count) {
    announcers.push_back(std::make_unique<RawClient>(server->port()));
    announcers.back()->send(bytes_of(set_header(0, kStoreValueBytesMax)));
    announcers.back()->send("v");
    EXPECT_EQ(get_value(*store, "never set", 0), std::nullopt);
  }
  EXPECT_EQ(store->set("color", "blue").to_string(), "ok");
}

TEST(StoreServer, RefusesByItsHeaderWhatDoesNotFitBesideWhatIsStored) {
  SharedClock clock;
  const auto server = make_store_server("127.0.0.1", 0, clock, {.stored_bytes_max = 120}).value();
  const auto store = connect_to(*server);
  EXPECT_EQ(store->set("color", std::string(75, 'b')).to_string(), "ok");  // 80 with its key
  RawClient announcer(server->port());
  announcer.send(bytes_of(set_header(1, 40)));
  EXPECT_EQ(announcer.read_to_end(), "");
  EXPECT_EQ(store->set("k", std::string(39, 'v')).to_string(), "ok");
}

TEST(StoreServer, EndsTheLargestUnfinishedRequestWhenTooManyBytesHaveArrived) {
  SharedClock clock;
  const auto server = make_store_server("127.0.0.1", 0, clock, {.stored_bytes_max = 200}).value();
  const auto store = connect_to(*server);
  RawClient small(server->port()), large(server->port());
  small.send(bytes_of(set_header(1, 100)) + std::string(20, 'k'));  // 44 bytes
  large.send(bytes_of(set_header(1, 150)) + std::string(96, 'k'));  // 120 bytes
  for (int tries = 0; tries < kTriesMax && !large.is_closed(); ++tries)
    EXPECT_EQ(store->set("color", std::string(40, 'b')).to_string(), "ok");  // 69 bytes
  EXPECT_TRUE(large.is_closed());
  small.send(std::string(81, 'k'));
  EXPECT_EQ(get_value(*store, "k", kLongNs), std::string(100, 'k'));
}

#if defined(__linux__)
// The kernel's timer of the server's end of a connection: "02:..." is keep-alive.
std::string timer_of(int server_port, int client_port) {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, local, peer, state, queues, timer;
    fields >> number >> local >> peer >> state >> queues >> timer;
    if (std::stoi(local.substr(9), nullptr, 16) == server_port &&
        std::stoi(peer.substr(9), nullptr, 16) == client_port)
      return timer.substr(0, 2);
  }
  return "no such connection";
}

TEST(StoreServer, AsksTheHostsOfIdleConnectionsForASignOfLife) {
  const auto server = make_server();
  RawClient idle(server->port());
  idle.ask();
  EXPECT_EQ(timer_of(server->port(), idle.port()), "02");
}
#endif

TEST(StoreServer, ForgetsAWaiterThatHasGone) {
  const auto server = make_server();
  StoreRequestHeader parked;
  parked.key_bytes = 1;
  parked.timeout_ns = kLongNs;
  { RawClient(server->port()).send(bytes_of(parked) + "k"); }
  const auto store = connect_to(*server);
  EXPECT_TRUE(store->set("k", "v").is_ok());
  EXPECT_EQ(get_value(*store, "k", 0), "v");
}

}  // namespace
}  // namespace mccl
