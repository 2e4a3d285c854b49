// What is particular to TCP; the promises of every wire are in test/conformance/wire_test.cc.
#include "transport/tcp_wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>

#include "base/clock.h"
#include "transport/port_holder.h"
#include "transport/socket.h"

namespace mccl {
namespace {

std::unique_ptr<WireContext> make_context(const TcpOptions& options) {
  Result<std::unique_ptr<WireContext>> context = make_tcp_context(options);
  EXPECT_EQ(context.status().to_string(), "ok");
  return std::move(context).value();
}

uint16_t port_of(const WireContext& context) {
  return parse_tcp_address(context.address()).value().port();
}

// Both wires of a connection from `from` to `to`.
std::array<std::unique_ptr<Wire>, 2> connect_pair(WireContext& from, WireContext& to) {
  std::unique_ptr<Wire> near = from.connect(to.address(), 1).value();
  std::unique_ptr<Wire> far;
  std::vector<WireEvent> events;
  while (far == nullptr) {
    to.poll(-1, events);
    far = to.accept(2);
  }
  return {std::move(near), std::move(far)};
}

// The open sockets with this port at either end.
std::set<int> sockets_with_port(uint16_t port) {
  std::set<int> sockets;
  for (int number = 0; number < 1'024; ++number)
    if (local_address(number).port() == port || peer_address(number).port() == port)
      sockets.insert(number);
  return sockets;
}

TEST(TcpContext, ListensOnTheGivenAddressAndSaysSo) {
  const auto ipv4 = make_context({});
  EXPECT_EQ(ipv4->address(), "tcp://127.0.0.1:" + std::to_string(port_of(*ipv4)));
  TcpOptions options;
  options.listen_address = "::1";
  const auto ipv6 = make_context(options);
  EXPECT_EQ(ipv6->address(), "tcp://[::1]:" + std::to_string(port_of(*ipv6)));
}

TEST(TcpContext, TakesTheFirstFreePortOfItsRange) {
  // Two neighbouring ports of which the first is taken; the second one is free most of the time.
  for (int attempt = 0; attempt < 100; ++attempt) {
    const auto holder = make_context({});
    TcpOptions options;
    options.port_first = port_of(*holder);
    options.port_last = options.port_first + 1;
    Result<std::unique_ptr<WireContext>> context = make_tcp_context(options);
    if (!context.is_ok()) continue;
    EXPECT_EQ(port_of(*context.value()), options.port_last);
    return;
  }
  FAIL() << "no two neighbouring ports were free";
}

TEST(TcpContext, NamesTheAddressAndTheReasonWhenItCannotListen) {
  const auto holder = make_context({});
  TcpOptions options;
  options.port_first = options.port_last = port_of(*holder);
  const std::string port = std::to_string(options.port_first);
  EXPECT_EQ(make_tcp_context(options).status().to_string(),
            "network: cannot listen on 127.0.0.1 port " + port + ": Address already in use; " +
                describe_port_holder(parse_host("127.0.0.1", port_of(*holder)).value()));
  options = {};
  options.listen_address = "192.0.2.200";
  EXPECT_EQ(make_tcp_context(options).status().to_string(),
            "network: cannot listen on 192.0.2.200 port 0: Cannot assign requested address");
}

TEST(TcpContext, RefusesWhatIsNotAnAddressOrARangeOfPorts) {
  TcpOptions options;
  options.listen_address = "node7";
  EXPECT_EQ(make_tcp_context(options).status().to_string(),
            "invalid argument: \"node7\" is not a numeric IPv4 or IPv6 address");
  options = {};
  for (const auto& [first, last] : {std::pair{5000, 4999}, {-1, 5}, {60'000, 65'536}}) {
    options.port_first = first;
    options.port_last = last;
    EXPECT_EQ(make_tcp_context(options).status().to_string(),
              "invalid argument: ports " + std::to_string(first) + " to " + std::to_string(last) +
                  " are not a range in 1 to 65535");
  }
}

TEST(TcpContext, IsNotKeptOpenByAForkedChild) {
  const auto near_context = make_context({});
  const auto far_context = make_context({});
  auto [near, far] = connect_pair(*near_context, *far_context);
  std::vector<WireEvent> events;
  far_context->poll(0, events);  // of the connection itself
  int life[2];
  ASSERT_EQ(::pipe(life), 0);
  far_context->begin_fork();
  const pid_t child = ::fork();
  if (child == 0) {
    far_context->end_fork(ForkSide::Child);
    ::close(life[1]);
    char unused = 0;
    (void)!::read(life[0], &unused, 1);  // until the parent's end is closed
    ::_exit(0);
  }
  far_context->end_fork(ForkSide::Parent);

  // The parent's wire is still watched.
  std::byte byte{7};
  const iovec piece{&byte, 1};
  ASSERT_EQ(near->write({&piece, 1}).value(), 1u);
  events.clear();
  far_context->poll(kNsPerSecond, events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_TRUE(events[0].token == 2 && events[0].readable);
  ASSERT_EQ(far->read({&piece, 1}).value(), 1u);

  far.reset();
  Status end;
  for (int looks = 0; end.is_ok() && looks < 10; ++looks) {
    events.clear();
    near_context->poll(kNsPerSecond, events);
    end = near->read({&piece, 1}).status();
  }
  EXPECT_EQ(end.code(), StatusCode::PeerLost) << end.to_string();
  ::close(life[1]);
  ::close(life[0]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(TcpWire, DescribesBothEndsAlsoWhenClosed) {
  const auto near_context = make_context({});
  const auto far_context = make_context({});
  const auto [near, far] = connect_pair(*near_context, *far_context);
  const std::string listen_text = "127.0.0.1:" + std::to_string(port_of(*far_context));
  const std::string near_text = near->describe().substr(0, near->describe().find(' '));
  EXPECT_EQ(near_text.rfind("127.0.0.1:", 0), 0u);
  EXPECT_EQ(near->describe(), near_text + " -> " + listen_text + " over tcp");
  EXPECT_EQ(far->describe(), listen_text + " -> " + near_text + " over tcp");
  near->close();
  EXPECT_EQ(near->describe(), near_text + " -> " + listen_text + " over tcp");
}

TEST(TcpWire, SaysWhyTheConnectionEndedAndWhose) {
  const auto context = make_context({});
  const auto [near, far] = connect_pair(*context, *context);
  char byte = 0;
  const iovec piece{&byte, 1};
  near->close();
  EXPECT_EQ(near->read({&piece, 1}).status().to_string(),
            "network: " + near->describe() + ": closed by this process");
  std::vector<WireEvent> events;
  Result<size_t> got = size_t{0};
  while (got.is_ok()) {
    context->poll(-1, events);
    got = far->read({&piece, 1});
  }
  EXPECT_EQ(got.status().to_string(), "peer lost: " + far->describe() + ": closed by the peer");
}

TEST(TcpWire, SaysThatAConnectionWasRefused) {
  const auto context = make_context({});
  const std::string dead = make_context({})->address();
  const std::unique_ptr<Wire> wire = context->connect(dead, 1).value();
  const iovec nothing{};
  std::vector<WireEvent> events;
  Result<size_t> got = size_t{0};
  while (got.is_ok()) {
    context->poll(-1, events);
    got = wire->write({&nothing, 1});
  }
  EXPECT_EQ(got.status().to_string(), "network: nobody listens at " + dead +
                                          ": the process is gone or the port is another one's");
}

TEST(TcpWire, SocketsAreCloseOnExecWithoutDelayUnderTheChosenCongestionControl) {
  TcpOptions options;
  options.congestion_controls = {"no_such", "reno"};
  const auto context = make_context(options);
  const auto wires = connect_pair(*context, *context);
  const std::set<int> sockets = sockets_with_port(port_of(*context));
  EXPECT_EQ(sockets.size(), 3u) << "the listener and both ends";
  for (const int socket : sockets) {
    EXPECT_EQ(::fcntl(socket, F_GETFD), FD_CLOEXEC);
    int no_delay = 0;
    socklen_t length_bytes = sizeof no_delay;
    ::getsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &no_delay, &length_bytes);
    EXPECT_NE(no_delay, 0);
#if defined(TCP_CONGESTION)
    char name[16] = {};
    length_bytes = sizeof name;
    ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length_bytes);
    EXPECT_STREQ(name, "reno");
#endif
  }
}

TEST(TcpWire, TakesTheBufferSizeThatWasAskedFor) {
  TcpOptions options;
  options.socket_buffer_bytes = 65'536;
  const auto context = make_context(options);
  const auto wires = connect_pair(*context, *context);
  for (const int socket : sockets_with_port(port_of(*context))) {
    for (const int option : {SO_SNDBUF, SO_RCVBUF}) {
      int buffer_bytes = 0;
      socklen_t length_bytes = sizeof buffer_bytes;
      ::getsockopt(socket, SOL_SOCKET, option, &buffer_bytes, &length_bytes);
#if defined(__linux__)
      EXPECT_EQ(buffer_bytes, 131'072) << "Linux doubles it for its own bookkeeping";
#else
      EXPECT_EQ(buffer_bytes, 65'536);
#endif
    }
  }
}

#if defined(__linux__)
TEST(TcpWire, SocketsWatchTheirPeersHost) {
  TcpOptions options;
  options.peer_timeout_ns = 10 * kNsPerSecond;
  const auto context = make_context(options);
  const auto wires = connect_pair(*context, *context);
  std::set<int> sockets = sockets_with_port(port_of(*context));
  std::erase_if(sockets, [](int socket) { return peer_address(socket).port() == 0; });
  EXPECT_EQ(sockets.size(), 2u);
  for (const int socket : sockets) {
    const auto option = [socket](int level, int name) {
      int value = 0;
      socklen_t length_bytes = sizeof value;
      ::getsockopt(socket, level, name, &value, &length_bytes);
      return value;
    };
    EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 5);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPCNT), 5);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_SYNCNT), 11);
    EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0) << "it would end stopped peers";
  }
}
#endif

TEST(TcpContext, OffersAConnectionAgainThatNoDescriptorWasLeftFor) {
  const auto context = make_context({});
  const std::unique_ptr<Wire> near = context->connect(context->address(), 1).value();
  std::vector<WireEvent> events;
  const auto wait_acceptable = [&] {
    for (bool is_acceptable = false; !is_acceptable; events.clear()) {
      context->poll(-1, events);
      for (const WireEvent& event : events) is_acceptable |= event.acceptable;
    }
  };
  wait_acceptable();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(context->accept(2), nullptr);
  const Result<std::unique_ptr<Wire>> other = context->connect(context->address(), 5);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(other.status().message(),
            "cannot connect to " + context->address() + ": this process (pid " +
                std::to_string(::getpid()) +
                ") has no free file descriptor; its limit (ulimit -n) is 0");

  context->poll(0, events);
  for (const WireEvent& event : events) EXPECT_FALSE(event.acceptable) << "it would be a busy loop";
  events.clear();
  wait_acceptable();
  EXPECT_NE(context->accept(2), nullptr);
  events.clear();
  EXPECT_EQ(context->accept(3), nullptr);
  context->poll(0, events);
  for (const WireEvent& event : events) EXPECT_FALSE(event.acceptable);
}

TEST(TcpWire, ReportsNothingOnceDestroyedAlsoWhenAForkedChildHoldsACopyOfItsSocket) {
  const auto context = make_context({});
  auto [near, far] = connect_pair(*context, *context);
  std::vector<FileDescriptor> copies;
  for (const int socket : sockets_with_port(port_of(*context)))
    copies.emplace_back(::fcntl(socket, F_DUPFD_CLOEXEC, 0));
  far.reset();
  char byte = 7;
  const iovec piece{&byte, 1};
  EXPECT_EQ(near->write({&piece, 1}).value(), 1u);
  std::vector<WireEvent> events;
  context->poll(0, events);
  for (const WireEvent& event : events) EXPECT_EQ(event.token, 1u);
}

TEST(TcpWire, MayOutliveItsContext) {
  auto context = make_context({});
  auto [near, far] = connect_pair(*context, *context);
  context.reset();
  char byte = 7;
  const iovec piece{&byte, 1};
  EXPECT_EQ(near->write({&piece, 1}).value(), 1u);
  near.reset();
  far.reset();
}

// A close with bytes unread resets the connection: what is still in the sender's kernel is lost.
TEST(TcpWire, WhatWasWrittenArrivesThoughTheWireEndsWithBytesUnread) {
  const auto near_context = make_context({});
  const auto far_context = make_context({});
  auto [near, far] = connect_pair(*near_context, *far_context);
  const std::byte word[8] = {};
  const iovec piece{const_cast<std::byte*>(word), sizeof word};
  while (far->write({&piece, 1}).value() == 0) {
  }
  std::vector<std::byte> block(1 << 20, std::byte{7});
  size_t written_bytes = 0;
  for (size_t taken = 1; taken > 0; written_bytes += taken) {
    const iovec all{block.data(), block.size()};
    Result<size_t> result = near->write({&all, 1});
    ASSERT_TRUE(result.is_ok());
    taken = result.value();
  }
  std::thread closing([&wire = near] { wire.reset(); });
  size_t read_bytes = 0;
  Status end;
  while (end.is_ok()) {
    const iovec all{block.data(), block.size()};
    const Result<size_t> result = far->read({&all, 1});
    if (result.is_ok())
      read_bytes += result.value();
    else
      end = result.status();
  }
  closing.join();
  EXPECT_EQ(read_bytes, written_bytes);
  EXPECT_TRUE(end.message().ends_with("closed by the peer")) << end.to_string();
}

}  // namespace
}  // namespace mccl
