#include "comm/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/store_message.h"
#include "mccl/rendezvous.h"
#include "store_clients.h"
#include "transport/socket.h"

namespace mccl {
namespace {

using testing::HasSubstr;

// A port that nobody listens on: the kernel gave it to a server that has gone.
int closed_port() {
  return make_server()->port();
}

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

// A listener whose process is stopped: the kernel accepts, nobody answers. Once `is_full`, the
// kernel drops requests to connect, as a firewall does.
class SilentServer {
 public:
  explicit SilentServer(bool is_full = false) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const SocketAddress any = parse_host("127.0.0.1", 0).value();
    EXPECT_EQ(::bind(listener_.number(), any.raw(), any.length_bytes), 0);
    EXPECT_EQ(::listen(listener_.number(), is_full ? 0 : 16), 0);
    if (!is_full) return;
    first_ = std::make_unique<RawClient>(port());
    pollfd waiting{listener_.number(), POLLIN, 0};
    EXPECT_EQ(::poll(&waiting, 1, 10'000), 1);
  }
  int port() const { return address().port(); }
  SocketAddress address() const { return local_address(listener_.number()); }

 private:
  FileDescriptor listener_;
  std::unique_ptr<RawClient> first_;
};

#if defined(__linux__)  // elsewhere a full listener refuses
TEST(TcpStore, TriesTheNextAddressWhenTheFirstDropsWhatIsSentToIt) {
  const auto server = make_server();
  const SilentServer dropping(true);
  TcpStoreOptions options;
  options.resolve = [&](const std::string&, uint16_t port) {
    return Result<std::vector<SocketAddress>>(
        std::vector<SocketAddress>{dropping.address(), parse_host("127.0.0.1", port).value()});
  };
  options.address_ns = 20 * kMsNs;
  Result<std::shared_ptr<Store>> store =
      connect_tcp_store("store.test", server->port(), 5000 * kMsNs, {}, options);
  ASSERT_EQ(store.status().to_string(), "ok");
  EXPECT_EQ(store.value()->set("color", "blue").to_string(), "ok");
}
#endif

TEST(TcpStore, AStoppedServerHoldsACallNoLongerThanItsBound) {
  const SilentServer stopped;
  const auto store =
      connect_tcp_store("127.0.0.1", stopped.port(), kLongNs, {}, TcpStoreOptions{}).value();
  const std::string text = "network: the store at 127.0.0.1 port " +
                           std::to_string(stopped.port()) +
                           " failed: no answer; does the process that serves it still run?";
  StoreBound bound;
  bound.answer_ns = 20 * kMsNs;
  int asked = 0;
  bound.interrupted = [&] { return ++asked == 100; };  // a call without its bound ends, too
  EXPECT_EQ(store->get_within(bound, "color", 0).status().to_string(), text);
  EXPECT_EQ(store->set_within(bound, "color", "blue").to_string(), text);
}

TEST(TcpStore, AnInterruptEndsACallToAStoppedServer) {
  const SilentServer stopped;
  const auto store =
      connect_tcp_store("127.0.0.1", stopped.port(), kLongNs, {}, TcpStoreOptions{}).value();
  StoreBound bound;
  bound.interrupted = [] { return true; };
  EXPECT_EQ(store->get_within(bound, "color", kLongNs).status().to_string(),
            "aborted: the call to the store was interrupted");
}

TEST(TcpStore, AnInterruptEndsTheWaitForAServer) {
  EXPECT_EQ(make_tcp_store("127.0.0.1", closed_port(), false, kLongNs, [] { return true; })
                .status()
                .to_string(),
            "aborted: the call to the store was interrupted");
}

TEST(TcpStore, AResolverThatHangsHoldsNobodyPastHisTime) {
  std::promise<void> end;
  TcpStoreOptions options;
  options.resolve = [ended = end.get_future().share()](const std::string&, uint16_t) {
    ended.wait();
    return Result<std::vector<SocketAddress>>(std::vector<SocketAddress>{});
  };
  EXPECT_EQ(connect_tcp_store("store.test", 7, 20 * kMsNs, {}, options).status().to_string(),
            "timeout: nobody has served the store in time: the store at store.test port 7 failed: "
            "its name was not resolved in time; does the process that serves it still run?");
  EXPECT_EQ(connect_tcp_store(
                "store.test", 7, kLongNs, [] { return true; }, options)
                .status()
                .to_string(),
            "aborted: the call to the store was interrupted");
  end.set_value();
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

}  // namespace
}  // namespace mccl
