#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "comm/store_message.h"
#include "comm/store_server.h"
#include "mccl/rendezvous.h"
#include "transport/socket.h"

namespace mccl {
namespace {

using testing::HasSubstr;

constexpr int64_t kMsNs = 1'000'000;
constexpr int64_t kLongNs = 60'000 * kMsNs;

std::unique_ptr<StoreServer> make_server() {
  Result<std::unique_ptr<StoreServer>> server = StoreServer::create("127.0.0.1", 0);
  EXPECT_TRUE(server.is_ok()) << server.status().to_string();
  return std::move(server).value();
}

std::shared_ptr<Store> connect_to(const StoreServer& server) {
  Result<std::shared_ptr<Store>> store = make_tcp_store("127.0.0.1", server.port(), false, kLongNs);
  EXPECT_TRUE(store.is_ok()) << store.status().to_string();
  return std::move(store).value();
}

std::optional<std::string> get_value(Store& store, const std::string& key, int64_t timeout_ns) {
  Result<std::optional<std::string>> value = store.get(key, timeout_ns);
  EXPECT_TRUE(value.is_ok()) << value.status().to_string();
  return value.is_ok() ? value.value() : std::nullopt;
}

// A port that nobody listens on: the kernel gave it to a server that has gone.
int closed_port() {
  return make_server()->port();
}

std::string bytes_of(const StoreRequestHeader& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof header);
}

// A client in bad faith: blocking, no rules.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const SocketAddress address = parse_host("127.0.0.1", static_cast<uint16_t>(port)).value();
    EXPECT_EQ(::connect(socket_.number(), address.raw(), address.length_bytes), 0);
    // A server that does not close is a failure, not a test without end.
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    ::setsockopt(socket_.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  void send(const std::string& bytes) {
    EXPECT_EQ(::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  bool is_closed() {
    char byte = 0;
    return ::recv(socket_.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 || errno == ECONNRESET;
  }
  // One request and its answer, so that the server has accepted the connection.
  void ask() {
    send(bytes_of(StoreRequestHeader{}));
    StoreAnswerHeader answer;
    EXPECT_EQ(::recv(socket_.number(), &answer, sizeof answer, MSG_WAITALL),
              static_cast<ssize_t>(sizeof answer));
  }
  int port() const { return local_address(socket_.number()).port(); }
  // Everything until the server closes the connection; a reset ends it, too.
  std::string read_to_end() {
    std::string all;
    std::array<char, 4096> part;
    for (;;) {
      const ssize_t count = ::recv(socket_.number(), part.data(), part.size(), 0);
      EXPECT_TRUE(count >= 0 || errno == ECONNRESET) << error_text(errno);
      if (count <= 0) return all;
      all.append(part.data(), static_cast<size_t>(count));
    }
  }

 private:
  FileDescriptor socket_;
};

// Read by a server's thread, moved by a test.
class SharedClock final : public Clock {
 public:
  TimeNs now() const override { return now_; }
  void advance(TimeNs time_ns) { now_ += time_ns; }

 private:
  std::atomic<TimeNs> now_{0};
};

TEST(TcpStore, WhatOneRankSetsEveryRankGets) {
  const auto server = make_server();
  const auto first = connect_to(*server);
  const auto second = connect_to(*server);
  EXPECT_TRUE(first->set("color", "blue").is_ok());
  EXPECT_EQ(get_value(*second, "color", 0), "blue");
  EXPECT_EQ(get_value(*first, "color", 0), "blue");
}

TEST(TcpStore, AKeyThatIsNotSetIsNothingAtOnceWithoutTime) {
  const auto server = make_server();
  EXPECT_EQ(get_value(*connect_to(*server), "color", 0), std::nullopt);
}

TEST(TcpStore, AKeyThatIsNotSetInTimeIsNothing) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  EXPECT_EQ(get_value(*store, "color", 30 * kMsNs), std::nullopt);
  EXPECT_EQ(get_value(*store, "color", 0), std::nullopt);  // the connection still works
}

TEST(TcpStore, AGetWaitsForALaterSet) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  auto early = std::async(std::launch::async, [&] { return get_value(*store, "late", kLongNs); });
  // The same store: a call that waits does not stop one that sets.
  EXPECT_EQ(early.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_TRUE(store->set("late", "here").is_ok());
  EXPECT_EQ(early.get(), "here");
}

TEST(TcpStore, OneSetAnswersEveryWaiter) {
  const auto server = make_server();
  std::vector<std::future<std::optional<std::string>>> waiters;
  for (int waiter = 0; waiter < 20; ++waiter)
    waiters.push_back(std::async(std::launch::async,
                                 [&] { return get_value(*connect_to(*server), "go", kLongNs); }));
  EXPECT_TRUE(connect_to(*server)->set("go", "now").is_ok());
  for (auto& waiter : waiters) EXPECT_EQ(waiter.get(), "now");
}

TEST(TcpStore, ValuesHoldAnyBytesAndAreEmptyOrSixteenMebibytes) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  const std::string zeros("a\0b\n\xff", 5);
  std::string large(kStoreValueBytesMax, 'x');
  large.front() = 'f';
  large.back() = 'l';
  EXPECT_TRUE(store->set("zeros", zeros).is_ok());
  EXPECT_TRUE(store->set("empty", "").is_ok());
  EXPECT_TRUE(store->set("large", large).is_ok());
  EXPECT_EQ(get_value(*store, "zeros", 0), zeros);
  EXPECT_EQ(get_value(*store, "empty", 0), "");
  EXPECT_TRUE(get_value(*store, "large", 0) == large);
}

TEST(TcpStore, TooLongKeysAndValuesAreRefusedBeforeTheyAreSent) {
  const auto server = make_server();
  const auto store = connect_to(*server);
  EXPECT_TRUE(store->set(std::string(256, 'k'), "v").is_ok());
  const Status key = store->set(std::string(257, 'k'), "v");
  EXPECT_EQ(key.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(key.message(), HasSubstr("has 257 bytes, at most 256"));
  EXPECT_EQ(store->get(std::string(257, 'k'), 0).status().code(), StatusCode::InvalidArgument);
  const Status value = store->set("k", std::string(kStoreValueBytesMax + 1, 'v'));
  EXPECT_EQ(value.code(), StatusCode::InvalidArgument);
  EXPECT_THAT(value.message(), HasSubstr("has 16777217 bytes, at most 16777216"));
}

TEST(TcpStore, AClientThatComesBeforeTheServerWaitsForIt) {
  const int port = closed_port();
  auto early = std::async(std::launch::async,
                          [&] { return make_tcp_store("127.0.0.1", port, false, kLongNs); });
  EXPECT_EQ(early.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  Result<std::shared_ptr<Store>> server = make_tcp_store("127.0.0.1", port, true, kLongNs);
  ASSERT_TRUE(server.is_ok()) << server.status().to_string();
  EXPECT_TRUE(server.value()->set("color", "red").is_ok());
  Result<std::shared_ptr<Store>> client = early.get();
  ASSERT_TRUE(client.is_ok()) << client.status().to_string();
  EXPECT_EQ(get_value(*client.value(), "color", 0), "red");
}

TEST(TcpStore, NobodyServingIsATimeout) {
  const Status status = make_tcp_store("127.0.0.1", closed_port(), false, 40 * kMsNs).status();
  EXPECT_EQ(status.code(), StatusCode::Timeout);
  EXPECT_THAT(status.message(), HasSubstr("nobody has served the store in time"));
  EXPECT_THAT(status.message(), HasSubstr("Connection refused"));
}

TEST(TcpStore, APortThatIsTakenOrIsNoneCannotBeServed) {
  const auto server = make_server();
  const Status taken = make_tcp_store("127.0.0.1", server->port(), true, kLongNs).status();
  EXPECT_EQ(taken.code(), StatusCode::Network);
  EXPECT_THAT(taken.message(), HasSubstr("Address already in use"));
  EXPECT_EQ(make_tcp_store("127.0.0.1", 0, false, 0).status().code(), StatusCode::InvalidArgument);
  EXPECT_EQ(make_tcp_store("127.0.0.1", 65536, true, 0).status().code(),
            StatusCode::InvalidArgument);
  EXPECT_EQ(StoreServer::create("192.0.2.1", 0).status().code(), StatusCode::Network);
}

TEST(TcpStore, AServerThatGoesIsANetworkError) {
  auto server = make_server();
  const auto store = connect_to(*server);
  auto waiting = std::async(std::launch::async, [&] { return store->get("never", kLongNs); });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  server.reset();
  EXPECT_EQ(waiting.get().status().code(), StatusCode::Network);
  EXPECT_EQ(store->set("color", "blue").code(), StatusCode::Network);
}

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
