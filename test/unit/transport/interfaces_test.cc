#include "transport/interfaces.h"

#include <gtest/gtest.h>

namespace mccl {
namespace {

InterfaceAddress ipv4(const std::string& name, const std::string& address, int prefix_length) {
  return {.name = name, .address = address, .prefix_length = prefix_length};
}

InterfaceAddress ipv6(const std::string& name, const std::string& address, int prefix_length) {
  return {.name = name, .address = address, .is_ipv6 = true, .prefix_length = prefix_length};
}

InterfaceAddress loopback(InterfaceAddress address) {
  address.is_loopback = true;
  return address;
}

InterfaceAddress down(InterfaceAddress address) {
  address.is_up = false;
  return address;
}

// In the kernel's order: all of IPv4, then all of IPv6.
std::vector<InterfaceAddress> host() {
  return {loopback(ipv4("lo", "127.0.0.1", 8)), ipv4("docker0", "172.17.0.1", 16),
          ipv4("eth0", "203.0.113.7", 24),      ipv4("eth1", "10.1.2.3", 16),
          ipv4("eth10", "10.9.0.3", 16),        down(ipv4("eth2", "203.0.113.130", 25)),
          loopback(ipv6("lo", "::1", 128)),     ipv6("eth1", "fd00:1::3", 64),
          ipv6("eth1", "fe80::3", 64)};
}

// The address chosen, or the error.
std::string chosen(const std::string& pattern, const std::string& master_address = "",
                   const std::vector<InterfaceAddress>& interfaces = host()) {
  Result<InterfaceAddress> result = choose_interface(interfaces, pattern, master_address);
  return result.is_ok() ? result.value().address : result.status().to_string();
}

constexpr const char* kHostText =
    "; this host has lo 127.0.0.1, docker0 172.17.0.1, eth0 203.0.113.7, eth1 10.1.2.3, "
    "eth10 10.9.0.3, eth2 203.0.113.130 (down), lo ::1, eth1 fd00:1::3, eth1 fe80::3";

TEST(ChooseInterface, TakesTheFirstRealIpv4WithoutPatternAndMaster) {
  EXPECT_EQ(chosen(""), "203.0.113.7");
}

TEST(ChooseInterface, TakesIpv6BeforeVirtualOnesAndThoseBeforeLoopback) {
  const InterfaceAddress lo = loopback(ipv4("lo", "127.0.0.1", 8));
  const InterfaceAddress lo6 = loopback(ipv6("lo", "::1", 128));
  const InterfaceAddress docker = ipv4("docker0", "172.17.0.1", 16);
  const InterfaceAddress link_local = ipv6("eth0", "fe80::7", 64);
  EXPECT_EQ(chosen("", "", {lo, docker, link_local, ipv6("eth0", "fd00::7", 64)}), "fd00::7");
  for (const char* name : {"docker0", "veth1a2b", "virbr0", "br-5f"})
    EXPECT_EQ(chosen("", "", {lo, ipv4(name, "172.18.0.1", 16), ipv4("wlan0", "10.0.0.2", 8)}),
              "10.0.0.2")
        << name;
  EXPECT_EQ(chosen("", "", {lo, docker, link_local}), "172.17.0.1");
  EXPECT_EQ(chosen("", "", {lo6, lo, link_local}), "127.0.0.1");
  EXPECT_EQ(chosen("", "", {link_local, lo6}), "::1");
  EXPECT_EQ(chosen("", "", {ipv4("br0", "10.0.0.3", 8), docker}), "10.0.0.3")
      << "br0 is a bridge of the administrator's, br-* are docker's";
}

TEST(ChooseInterface, IgnoresWhatIsDown) {
  EXPECT_EQ(chosen("", "", {down(ipv4("eth0", "10.0.0.2", 8)), ipv4("eth1", "10.0.0.3", 8)}),
            "10.0.0.3");
  EXPECT_EQ(chosen("", "", {down(ipv4("eth0", "10.0.0.2", 8))}),
            "invalid argument: no interface is up; this host has eth0 10.0.0.2 (down)");
  EXPECT_EQ(chosen("", "", {}), "invalid argument: no interface is up; this host has none");
}

TEST(ChooseInterface, MatchesNamesAsPrefixes) {
  EXPECT_EQ(chosen("eth1"), "10.1.2.3");
  EXPECT_EQ(chosen("eth10"), "10.9.0.3");
  EXPECT_EQ(chosen("eth"), "203.0.113.7");
  EXPECT_EQ(chosen("docker"), "172.17.0.1");
}

TEST(ChooseInterface, TriesAListInItsOrder) {
  EXPECT_EQ(chosen("eth10,eth0"), "10.9.0.3");
  EXPECT_EQ(chosen("ib0, lo ,eth0"), "127.0.0.1");
  EXPECT_EQ(chosen(",eth1,"), "10.1.2.3");
}

TEST(ChooseInterface, MatchesWholeNamesAfterAnEqualsSignThatHoldsForTheWholeList) {
  EXPECT_EQ(chosen("=eth10"), "10.9.0.3");
  EXPECT_EQ(chosen("=eth,eth1"), "10.1.2.3");
  EXPECT_EQ(chosen("=eth,eth"),
            std::string("invalid argument: MCCL_SOCKET_IFNAME=\"=eth,eth\": no interface matches") +
                kHostText);
  EXPECT_EQ(chosen("ib0,=eth1"), "10.1.2.3");
}

TEST(ChooseInterface, MatchesGlobs) {
  EXPECT_EQ(chosen("e*0"), "203.0.113.7");
  EXPECT_EQ(chosen("eth1?"), "10.9.0.3");
  EXPECT_EQ(chosen("eth[1-9]"), "10.1.2.3");
  EXPECT_EQ(chosen("*"), "203.0.113.7") << "the best of what matches, not loopback";
}

TEST(ChooseInterface, ExcludesTheWholeListAfterACaret) {
  EXPECT_EQ(chosen("^eth0"), "10.1.2.3");
  EXPECT_EQ(chosen("^eth0,eth1"), "172.17.0.1") << "eth1 excludes eth10, too, as a prefix";
  EXPECT_EQ(chosen("^=eth0,eth1"), "10.9.0.3");
  EXPECT_EQ(chosen("^eth*,docker0"), "127.0.0.1");
  EXPECT_EQ(chosen("^203.0.113.0/24,10.1.0.0/16"), "10.9.0.3");
  EXPECT_EQ(
      chosen("^*"),
      std::string("invalid argument: MCCL_SOCKET_IFNAME=\"^*\": every interface is excluded") +
          kHostText);
}

TEST(ChooseInterface, MatchesAddressesExactly) {
  EXPECT_EQ(chosen("10.1.2.3"), "10.1.2.3");
  EXPECT_EQ(chosen("fd00:1::3"), "fd00:1::3");
  EXPECT_EQ(chosen("fd00:1:0:0::3"), "fd00:1::3");
  EXPECT_EQ(chosen("10.1.2.4"),
            std::string("invalid argument: MCCL_SOCKET_IFNAME=\"10.1.2.4\": no interface matches") +
                kHostText);
}

TEST(ChooseInterface, MatchesBlocksBitByBit) {
  EXPECT_EQ(chosen("10.0.0.0/8"), "10.1.2.3");
  EXPECT_EQ(chosen("10.8.0.0/13"), "10.9.0.3");
  EXPECT_EQ(chosen("10.1.2.2/31"), "10.1.2.3");
  EXPECT_EQ(chosen("10.1.2.2/32,172.16.0.0/12"), "172.17.0.1");
  EXPECT_EQ(chosen("fd00::/16"), "fd00:1::3");
  EXPECT_EQ(chosen("0.0.0.0/0"), "203.0.113.7");
  EXPECT_EQ(chosen("::/0"), "fd00:1::3");
}

TEST(ChooseInterface, NamesTheItemThatIsNotABlock) {
  for (const char* pattern :
       {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "eth0/8", "fd00::/129", "10.0.0.0/-1"})
    EXPECT_EQ(chosen(pattern), std::string("invalid argument: MCCL_SOCKET_IFNAME=\"") + pattern +
                                   "\": \"" + pattern +
                                   "\" is not a block such as 10.1.0.0/16 or fd00::/8" + kHostText);
}

TEST(ChooseInterface, RefusesAPatternThatNamesNothing) {
  for (const char* pattern : {"^", ",", " "})
    EXPECT_EQ(chosen(pattern), std::string("invalid argument: MCCL_SOCKET_IFNAME=\"") + pattern +
                                   "\": it names nothing" + kHostText);
}

TEST(ChooseInterface, GoesTowardsTheMaster) {
  EXPECT_EQ(chosen("", "10.1.77.1"), "10.1.2.3");
  EXPECT_EQ(chosen("", "10.9.77.1"), "10.9.0.3");
  EXPECT_EQ(chosen("", "fd00:1::99"), "fd00:1::3");
  EXPECT_EQ(chosen("", "172.17.0.5"), "172.17.0.1") << "also over a virtual one";
  EXPECT_EQ(chosen("", "10.1.2.3"), "10.1.2.3") << "this host is the master";
  EXPECT_EQ(chosen("", "10.1.77.1", {ipv4("eth0", "10.200.0.1", 8), ipv4("eth1", "10.1.0.2", 16)}),
            "10.1.0.2")
      << "the narrower network wins";
}

TEST(ChooseInterface, ChoosesByItselfWhenTheMasterIsLoopbackOrTellsNothing) {
  for (const char* master : {"127.0.0.1", "127.1.2.3", "::1", "localhost", "198.51.100.1"})
    EXPECT_EQ(chosen("", master), "203.0.113.7") << master;
}

TEST(ChooseInterface, LetsNamesDecideBeforeTheMasterAndTheMasterAfterAnExclusion) {
  EXPECT_EQ(chosen("eth0", "10.1.77.1"), "203.0.113.7");
  EXPECT_EQ(chosen("^docker0", "10.9.77.1"), "10.9.0.3");
  EXPECT_EQ(chosen("^eth10", "10.9.77.1"), "203.0.113.7");
}

TEST(ListInterfaces, GivesNumericAddressesThatAreUpWithTheirNetworks) {
  Result<std::vector<InterfaceAddress>> interfaces = list_interfaces();
  ASSERT_TRUE(interfaces.is_ok());
  bool has_loopback = false;
  for (const InterfaceAddress& interface : interfaces.value()) {
    EXPECT_TRUE(interface.is_up);
    EXPECT_NE(interface.name, "");
    EXPECT_EQ(interface.address.find('%'), std::string::npos) << interface.address;
    EXPECT_EQ(interface.is_ipv6, interface.address.find(':') != std::string::npos);
    if (interface.address != "127.0.0.1") continue;
    has_loopback = true;
    EXPECT_TRUE(interface.is_loopback);
    EXPECT_EQ(interface.prefix_length, 8);
  }
  EXPECT_TRUE(has_loopback);
}

// Needs the kernel's own answer: the decoy would be chosen without, and no network is known.
TEST(ListInterfaces, GivesAddressesThatRouteToThemselves) {
  std::vector<InterfaceAddress> interfaces = list_interfaces().value();
  interfaces.insert(interfaces.begin(), ipv4("decoy0", "203.0.113.7", 0));
  for (InterfaceAddress& interface : interfaces) interface.prefix_length = 0;
  for (const InterfaceAddress& interface : interfaces) {
    if (interface.is_loopback || interface.is_ipv6 || interface.name == "decoy0") continue;
    EXPECT_EQ(chosen("", interface.address, interfaces), interface.address);
  }
}

}  // namespace
}  // namespace mccl
