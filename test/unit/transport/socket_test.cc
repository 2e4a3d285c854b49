#include "transport/socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <climits>

#include "transport/poller.h"

namespace mccl {
namespace {

TEST(ParseTcpAddress, ReadsWhatToStringWrites) {
  for (const char* text : {"192.168.1.7:40112", "[::1]:1", "[fd00::1:2]:65535", "0.0.0.0:80"}) {
    Result<SocketAddress> address = parse_tcp_address(std::string("tcp://") + text);
    ASSERT_TRUE(address.is_ok()) << text;
    EXPECT_EQ(to_string(address.value()), text);
  }
  const SocketAddress address = parse_tcp_address("tcp://10.0.0.9:513").value();
  EXPECT_EQ(address.family(), AF_INET);
  EXPECT_EQ(address.port(), 513);
  EXPECT_EQ(parse_tcp_address("tcp://[::1]:513").value().family(), AF_INET6);
}

TEST(ParseTcpAddress, NamesTheTextAndTheReason) {
  const auto message = [](const std::string& text) {
    return parse_tcp_address(text).status().to_string();
  };
  const auto refusal = [](const std::string& text, const std::string& reason) {
    return "invalid argument: \"" + text + "\" is not a tcp address (" + reason +
           "); expected tcp://192.168.1.7:40112 or tcp://[::1]:40112";
  };
  for (const char* text : {"", "10.0.0.1:80", "shm://10.0.0.1:80", "TCP://10.0.0.1:80"})
    EXPECT_EQ(message(text), refusal(text, "wrong scheme"));
  for (const char* text : {"tcp://", "tcp://10.0.0.1"})
    EXPECT_EQ(message(text), refusal(text, "no port"));
  for (const char* text : {"tcp://::1:80", "tcp://[10.0.0.1]:80", "tcp://[::1:80"})
    EXPECT_EQ(message(text), refusal(text, "IPv6 goes in brackets"));
  for (const char* text : {"tcp://10.0.0.1:", "tcp://10.0.0.1:0", "tcp://10.0.0.1:65536",
                           "tcp://10.0.0.1:-1", "tcp://10.0.0.1:8x"})
    EXPECT_EQ(message(text), refusal(text, "the port is not 1 to 65535"));
  for (const char* text :
       {"tcp://node7:80", "tcp://10.0.0:80", "tcp://:80", "tcp://[fe80::1%lo]:8"})
    EXPECT_EQ(message(text), refusal(text, "the host is not numeric"));
}

TEST(FileDescriptor, ClosesWhatItOwnsOnceWhenMovedOrClosed) {
  FileDescriptor first = make_stream_socket(AF_INET);
  const int number = first.number();
  FileDescriptor second(std::move(first));
  EXPECT_FALSE(first.is_open());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.number(), number);
  FileDescriptor third;
  third = std::move(second);
  EXPECT_NE(::fcntl(number, F_GETFD), -1);
  third.close();
  third.close();
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

TEST(StreamSocket, IsNonBlockingAndCloseOnExec) {
  const FileDescriptor socket = make_stream_socket(AF_INET);
  EXPECT_EQ(::fcntl(socket.number(), F_GETFD), FD_CLOEXEC);
  EXPECT_NE(::fcntl(socket.number(), F_GETFL) & O_NONBLOCK, 0);
}

#if defined(TCP_CONGESTION)
std::string congestion_control_of(int socket) {
  char name[16] = {};
  socklen_t length_bytes = sizeof name;
  ::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name, &length_bytes);
  return name;
}

TEST(CongestionControl, IsTheFirstThatTheKernelAllows) {
  const FileDescriptor socket = make_stream_socket(AF_INET);
  // Every kernel has reno, and every user may set it.
  EXPECT_EQ(choose_congestion_control(socket.number(), {"no_such", "reno", "cubic"}), "reno");
  EXPECT_EQ(congestion_control_of(socket.number()), "reno");
}

TEST(CongestionControl, StaysTheSystemsAfterAnEmptyNameOrWhenNoneIsAllowed) {
  const FileDescriptor socket = make_stream_socket(AF_INET);
  const std::string before = congestion_control_of(socket.number());
  EXPECT_EQ(choose_congestion_control(socket.number(), {"no_such", "", "reno"}), "");
  EXPECT_EQ(choose_congestion_control(socket.number(), {"no_such"}), "");
  EXPECT_EQ(choose_congestion_control(socket.number(), {}), "");
  set_congestion_control(socket.number(), "");
  EXPECT_EQ(congestion_control_of(socket.number()), before);
  set_congestion_control(socket.number(), "reno");
  EXPECT_EQ(congestion_control_of(socket.number()), "reno");
}
#endif

TEST(PollTimeout, RoundsUpToMilliseconds) {
  EXPECT_EQ(round_up_to_ms(0), 0);
  EXPECT_EQ(round_up_to_ms(1), 1);
  EXPECT_EQ(round_up_to_ms(1'000'000), 1);
  EXPECT_EQ(round_up_to_ms(1'000'001), 2);
  EXPECT_EQ(round_up_to_ms(-1), -1);
  EXPECT_EQ(round_up_to_ms(INT64_MIN), -1);
  EXPECT_EQ(round_up_to_ms(INT64_MAX), INT_MAX);
}

}  // namespace
}  // namespace mccl
