#include "transport/port_holder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <fstream>
#include <iterator>

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

// As a little-endian machine prints them.
constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
    "inode\n"
    "   0: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 111 1 0\n"
    "   1: 0100007F:1388 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000 0 222 1 0\n"
    "   2: 0900000A:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 333 1 0\n"
    "   3: 00000000:1389 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 444 1 0\n"
    "   4: torn\n";

std::vector<uint64_t> inodes_at(const char* host, uint16_t port) {
  return find_listening_inodes(kTable, parse_host(host, port).value());
}

TEST(FindListeningInodes, TakesListenersOfThePortThatAreInTheWay) {
  if constexpr (std::endian::native != std::endian::little) GTEST_SKIP() << "other numbers";
  EXPECT_THAT(inodes_at("127.0.0.1", 5000), ElementsAre(111));
  EXPECT_THAT(inodes_at("10.0.0.9", 5000), ElementsAre(333));
  EXPECT_THAT(inodes_at("10.0.0.8", 5000), IsEmpty());
  EXPECT_THAT(inodes_at("0.0.0.0", 5000), ElementsAre(111, 333));
  EXPECT_THAT(inodes_at("10.0.0.8", 5001), ElementsAre(444)) << "it listens on every address";
  EXPECT_THAT(inodes_at("127.0.0.1", 5002), IsEmpty());
}

#if defined(__linux__)

// A listener of this process.
struct Listener {
  explicit Listener(const char* host) {
    const SocketAddress any_port = parse_host(host, 0).value();
    socket = make_stream_socket(any_port.family());
    EXPECT_EQ(::bind(socket.number(), any_port.raw(), any_port.length_bytes), 0);
    EXPECT_EQ(::listen(socket.number(), 1), 0);
    address = local_address(socket.number());
  }
  FileDescriptor socket;
  SocketAddress address;
};

std::string own_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string command{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return command.substr(0, command.find('\0'));
}

TEST(FindPortHolder, NamesTheProcessAndItsCommandOfEitherFamily) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    const Listener listener(host);
    const std::optional<PortHolder> holder = find_port_holder(listener.address);
    ASSERT_TRUE(holder.has_value()) << host;
    EXPECT_EQ(holder->process, ::getpid());
    EXPECT_THAT(holder->command, StartsWith(own_command().substr(0, 70)));
    EXPECT_EQ(describe_port_holder(listener.address),
              "port " + std::to_string(listener.address.port()) + " is held by process " +
                  std::to_string(::getpid()) + " (" + holder->command + ")");
  }
}

// What is only bound is in no table.
TEST(FindPortHolder, SaysHowToFindAHolderThatItCannotSee) {
  const FileDescriptor bound = make_stream_socket(AF_INET);
  const SocketAddress any_port = parse_host("127.0.0.1", 0).value();
  ASSERT_EQ(::bind(bound.number(), any_port.raw(), any_port.length_bytes), 0);
  const SocketAddress address = local_address(bound.number());
  EXPECT_FALSE(find_port_holder(address).has_value());
  const std::string port = std::to_string(address.port());
  EXPECT_EQ(describe_port_holder(address), "this process may not see who holds port " + port +
                                               ": `sudo ss -tanp 'sport = " + port + "'` does");
}

#endif

}  // namespace
}  // namespace mccl
