#include "doctor/host_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "transport/tcp_wire.h"

namespace mccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

const std::vector<InterfaceAddress> kInterfaces = {
    {.name = "lo", .address = "127.0.0.1", .is_loopback = true, .prefix_length = 8},
    {.name = "docker0", .address = "172.17.0.1", .prefix_length = 16},
    {.name = "eth0", .address = "10.0.0.2", .prefix_length = 24},
    {.name = "utun3", .address = "100.64.0.2", .prefix_length = 32},
    {.name = "eth0", .address = "fe80::1", .is_ipv6 = true, .prefix_length = 64}};

std::vector<std::string> lines(const std::vector<CheckRow>& rows) {
  std::vector<std::string> all;
  for (const CheckRow& row : rows) all.push_back((row.is_ok ? "ok " : "warn ") + row.text);
  return all;
}

TEST(HostCheck, SaysOfEveryInterfaceWhyItIsKeptOrNot) {
  EXPECT_THAT(
      lines(check_interfaces(kInterfaces, "")),
      ElementsAre("ok lo 127.0.0.1 (loopback): rejected: no other host reaches it",
                  "ok docker0 172.17.0.1 (container): kept, but comes last: it is a container's",
                  "ok eth0 10.0.0.2 (lan): chosen unless the rendezvous host is reached by another "
                  "one",
                  "ok utun3 100.64.0.2 (tunnel): kept, but it is a tunnel",
                  "ok eth0 fe80::1 (lan): rejected: a link-local address is of no use without its "
                  "scope"));
}

TEST(HostCheck, WarnsWhenThePatternChoosesAPoorInterfaceOrNone) {
  const auto tunnel = lines(check_interfaces(kInterfaces, "utun"));
  EXPECT_EQ(tunnel[2],
            "ok eth0 10.0.0.2 (lan): rejected: MCCL_SOCKET_IFNAME=utun does not select it");
  EXPECT_EQ(tunnel[3],
            "warn utun3 100.64.0.2 (tunnel): chosen, for want of a better one: other hosts may not "
            "reach it; MCCL_SOCKET_IFNAME chooses");
  EXPECT_THAT(lines(check_interfaces(kInterfaces, "eth9")).back(),
              HasSubstr("warn MCCL_SOCKET_IFNAME=\"eth9\": no interface matches"));
}

TEST(HostCheck, ListensInTheRange) {
  EXPECT_THAT(check_ports({}, "127.0.0.1").text,
              MatchesRegex("listened at tcp://127.0.0.1:[0-9]+; any port, as MCCL_PORT_RANGE is "
                           "unset: a firewall needs a range"));
  TcpOptions options;
  const auto holder = make_tcp_context(options).value();
  const int port = std::stoi(holder->address().substr(holder->address().rfind(':') + 1));
  Config config;
  config.port_first = config.port_last = port;
  const CheckRow row = check_ports(config, "127.0.0.1");
  EXPECT_FALSE(row.is_ok);
  EXPECT_THAT(row.text, HasSubstr("is held by process"));
}

TEST(HostCheck, WarnsOfSmallLimits) {
  Config fixed;
  fixed.socket_buffer_bytes = 65536;
  EXPECT_THAT(lines({check_open_files(1024, 4096), check_open_files(256, 4096),
                     check_open_files(256, 512)}),
              ElementsAre("ok 1024 at once",
                          "warn 256 at once, at least 1024 are wanted: `ulimit -n 1024` before the "
                          "job",
                          "warn 256 at once, at least 1024 are wanted: `ulimit -n 512` before the "
                          "job"));
  EXPECT_THAT(
      lines({check_buffers({}, 4 << 20, 6 << 20), check_buffers({}, 4 << 20, 208 << 10),
             check_buffers({}, 0, 0), check_buffers(fixed, 0, 0)}),
      ElementsAre("ok up to 4M bytes to send, 6M to receive",
                  "warn up to 4M bytes to send, 208K to receive, at least 4M are wanted: raise the "
                  "last number of net.ipv4.tcp_wmem and net.ipv4.tcp_rmem",
                  "ok as the system tunes them", "ok MCCL_SOCKET_BUFFER=65536, fixed"));
}

TEST(HostCheck, SaysWhichCongestionControlAConnectionGets) {
  EXPECT_THAT(
      lines({check_congestion_control("cubic", "cubic"), check_congestion_control("bbr", "cubic"),
             check_congestion_control("bbr", ""), check_congestion_control("", "")}),
      ElementsAre("ok cubic, as the system has it", "ok cubic for this library; the system has bbr",
                  "warn bbr: the kernel allows neither cubic nor reno; bbr moves a half to "
                  "a third of their bytes in small virtual machines",
                  "ok as the system has it"));
}

}  // namespace
}  // namespace mccl
