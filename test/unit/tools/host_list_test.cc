#include "doctor/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccl {
namespace {

using testing::HasSubstr;

const std::vector<InterfaceAddress> kInterfaces = {
    {.name = "lo", .address = "127.0.0.1", .is_loopback = true, .prefix_length = 8},
    {.name = "eth0", .address = "10.0.0.2", .prefix_length = 24},
    {.name = "eth1", .address = "10.0.1.2", .prefix_length = 24}};

std::string hosts_fault(const std::string& text) {
  const auto names = parse_host_list(text);
  return names.is_ok() ? "" : names.status().to_string();
}

std::vector<DoctorHost> hosts_at(const std::vector<std::string>& addresses) {
  std::vector<DoctorHost> hosts;
  for (const std::string& address : addresses)
    hosts.push_back(
        {.name = std::string(1, static_cast<char>('a' + hosts.size())), .address = address});
  return hosts;
}

TEST(HostList, IsNamesOrAddresses) {
  EXPECT_EQ(parse_host_list("mac-1.local,10.0.0.2,[fd00::1]").value(),
            (std::vector<std::string>{"mac-1.local", "10.0.0.2", "fd00::1"}));
}

TEST(HostList, SaysWhatIsWrong) {
  EXPECT_EQ(hosts_fault("a"),
            "invalid argument: --hosts: 1 host, allowed are 2 to 64; without --hosts this host "
            "alone is looked at");
  EXPECT_EQ(hosts_fault("a,,b"), "invalid argument: --hosts: a name between two commas is missing");
  EXPECT_EQ(hosts_fault("a,b,"), "invalid argument: --hosts: a name between two commas is missing");
  EXPECT_EQ(hosts_fault("a,b,a"), "invalid argument: --hosts: a is there twice");
  EXPECT_THAT(hosts_fault("a, b"), HasSubstr("no spaces"));
  EXPECT_THAT(hosts_fault(std::string(5000, 'a')), HasSubstr("5000 letters, at most 4096"));
  std::string many = "h0";
  for (int index = 1; index <= 64; ++index) many += ",h" + std::to_string(index);
  EXPECT_THAT(hosts_fault(many), HasSubstr("65 hosts, allowed are 2 to 64"));
}

TEST(HostList, RefusesTwoNamesOfOneHost) {
  const auto resolve = [](const std::string& name) -> Result<std::string> {
    return name == "c" ? std::string("10.0.0.2") : std::string("10.0.0.1");
  };
  EXPECT_EQ(resolve_hosts({"a", "c", "b"}, resolve).status().to_string(),
            "invalid argument: --hosts: a and b are both 10.0.0.1 here; each host is named once");
  EXPECT_EQ(resolve_hosts({"a", "c"}, resolve).value(),
            (std::vector<DoctorHost>{{"a", "10.0.0.1"}, {"c", "10.0.0.2"}}));
}

TEST(HostList, NumericAddressesNeedNoResolver) {
  EXPECT_EQ(resolve_host("fd00::1").value(), "fd00::1");
  EXPECT_EQ(resolve_host("10.0.0.7").value(), "10.0.0.7");
}

TEST(FindSelf, GoesByTheAddressesOfThisHost) {
  EXPECT_EQ(find_self(hosts_at({"10.0.0.1", "10.0.0.2"}), kInterfaces, "").value(), 1u);
  // Debian gives a host's own name this address.
  EXPECT_EQ(find_self(hosts_at({"127.0.1.1", "10.0.0.3"}), kInterfaces, "").value(), 0u);
}

TEST(FindSelf, AsksWhenItCannotTell) {
  EXPECT_EQ(find_self(hosts_at({"10.0.0.7", "10.0.0.8"}), kInterfaces, "").status().message(),
            "none of --hosts is this host, which has lo 127.0.0.1, eth0 10.0.0.2, eth1 10.0.1.2: "
            "--self says which one it is");
  EXPECT_EQ(find_self(hosts_at({"10.0.0.2", "10.0.1.2"}), kInterfaces, "").status().message(),
            "a and b are both this host: --self says which one this is");
  EXPECT_EQ(find_self(hosts_at({"10.0.0.2", "10.0.1.2"}), kInterfaces, "b").value(), 1u);
  EXPECT_EQ(find_self(hosts_at({"10.0.0.2", "10.0.1.2"}), kInterfaces, "c").status().message(),
            "--self c is none of --hosts, which are a, b");
}

TEST(ListenPlace, IsTheOwnAddressOfTheList) {
  const ListenPlace place =
      choose_listen_place(hosts_at({"10.0.0.1", "10.0.1.2"}), 1, kInterfaces).value();
  EXPECT_EQ(place.address, "10.0.1.2");
  EXPECT_EQ(place.note, "");
}

TEST(ListenPlace, LeavesLoopbackForTheNetworkOfTheOtherHostsAndSaysSo) {
  const ListenPlace place =
      choose_listen_place(hosts_at({"127.0.1.1", "10.0.1.9"}), 0, kInterfaces).value();
  EXPECT_EQ(place.address, "10.0.1.2");
  EXPECT_EQ(place.note,
            "a is 127.0.1.1 on a itself: a job there would offer an address that no other host "
            "reaches; take the name out of that line of /etc/hosts, or name eth1 10.0.1.2");
}

TEST(ListenPlace, IsLoopbackWhereAllHostsAre) {
  EXPECT_EQ(
      choose_listen_place(hosts_at({"127.0.0.1", "127.0.0.2"}), 1, kInterfaces).value().address,
      "127.0.0.2");
}

}  // namespace
}  // namespace mccl
