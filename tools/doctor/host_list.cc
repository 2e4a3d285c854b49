#include "doctor/host_list.h"

#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <memory>

#include "doctor/doctor_message.h"
#include "doctor/pair_result.h"
#include "transport/socket.h"

namespace mccl {
namespace {

Status wrong_hosts(const std::string& reason) {
  return Status(StatusCode::InvalidArgument, "--hosts: " + reason);
}

// Names travel as one word of a line.
bool is_name_letter(char letter) {
  return letter > ' ' && letter <= '~';
}

std::string interface_list(const std::vector<InterfaceAddress>& interfaces) {
  std::string text;
  for (const InterfaceAddress& one : interfaces)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", one.name, one.address);
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<std::string>> parse_host_list(const std::string& text) {
  if (text.size() > kHostListBytesMax)
    return wrong_hosts(
        fmt::format("{} letters, at most {} are read", text.size(), kHostListBytesMax));
  std::vector<std::string> names;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    std::string name = text.substr(start, comma - start);
    start = comma + 1;
    if (name.size() > 2 && name.front() == '[' && name.back() == ']')
      name = name.substr(1, name.size() - 2);
    if (name.empty()) return wrong_hosts("a name between two commas is missing");
    if (!std::all_of(name.begin(), name.end(), is_name_letter))
      return wrong_hosts("names have letters, digits and signs of ASCII, and no spaces");
    if (std::find(names.begin(), names.end(), name) != names.end())
      return wrong_hosts(fmt::format("{} is there twice", name));
    names.push_back(std::move(name));
  }
  if (names.size() < 2 || names.size() > kHostsMax)
    return wrong_hosts(
        fmt::format("{} host{}, allowed are 2 to {}; without --hosts this host "
                    "alone is looked at",
                    names.size(), names.size() == 1 ? "" : "s", kHostsMax));
  return names;
}

Result<std::string> resolve_host(const std::string& name) {
  if (const Result<SocketAddress> numeric = parse_host(name, 0); numeric.is_ok()) return name;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return Status(StatusCode::Network,
                  fmt::format("this host's resolver does not know {} ({}): give its numeric "
                              "address, or {}.local if it is a Mac on this network",
                              name, ::gai_strerror(error), name.substr(0, name.find('.'))));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
      if (entry->ai_family != family) continue;
      SocketAddress address;
      std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen,
                  reinterpret_cast<char*>(&address.storage));
      address.length_bytes = entry->ai_addrlen;
      return host_of(to_string(address));
    }
  return Status(StatusCode::Network,
                fmt::format("{} has neither an IPv4 nor an IPv6 address", name));
}

Result<std::vector<DoctorHost>> resolve_hosts(const std::vector<std::string>& names,
                                              const Resolver& resolve) {
  std::vector<DoctorHost> hosts;
  for (const std::string& name : names) {
    Result<std::string> address = resolve(name);
    if (!address.is_ok()) return address.status();
    for (const DoctorHost& other : hosts)
      if (other.address == address.value())
        return wrong_hosts(fmt::format("{} and {} are both {} here; each host is named once",
                                       other.name, name, address.value()));
    hosts.push_back({.name = name, .address = std::move(address).value()});
  }
  return hosts;
}

bool is_loopback_address(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Result<size_t> find_self(const std::vector<DoctorHost>& hosts,
                         const std::vector<InterfaceAddress>& interfaces, const std::string& self) {
  std::vector<size_t> own;
  for (size_t index = 0; index < hosts.size(); ++index) {
    const DoctorHost& host = hosts[index];
    if (!self.empty()
            ? host.name == self
            : is_loopback_address(host.address) || std::any_of(interfaces.begin(), interfaces.end(),
                                                               [&](const InterfaceAddress& one) {
                                                                 return one.address == host.address;
                                                               }))
      own.push_back(index);
  }
  if (own.size() == 1) return own.front();
  std::string names;
  for (const DoctorHost& host : hosts) names += (names.empty() ? "" : ", ") + host.name;
  if (!self.empty())
    return Status(StatusCode::InvalidArgument,
                  fmt::format("--self {} is none of --hosts, which are {}", self, names));
  if (own.empty())
    return Status(StatusCode::InvalidArgument,
                  fmt::format("none of --hosts is this host, which has {}: --self says which one "
                              "it is",
                              interface_list(interfaces)));
  return Status(StatusCode::InvalidArgument,
                fmt::format("{} and {} are both this host: --self says which one this is",
                            hosts[own[0]].name, hosts[own[1]].name));
}

Result<ListenPlace> choose_listen_place(const std::vector<DoctorHost>& hosts, size_t self,
                                        const std::vector<InterfaceAddress>& interfaces) {
  const DoctorHost& own = hosts[self];
  const auto other = std::find_if(hosts.begin(), hosts.end(), [](const DoctorHost& host) {
    return !is_loopback_address(host.address);
  });
  if (!is_loopback_address(own.address) || other == hosts.end())
    return ListenPlace{.address = own.address, .note = ""};
  const Result<InterfaceAddress> chosen = choose_interface(interfaces, "", other->address);
  if (!chosen.is_ok()) return chosen.status();
  return ListenPlace{
      .address = chosen.value().address,
      .note = fmt::format("{} is {} on {} itself: a job there would offer an address that no other "
                          "host reaches; take the name out of that line of /etc/hosts, or name {} "
                          "{}",
                          own.name, own.address, own.name, chosen.value().name,
                          chosen.value().address)};
}

}  // namespace mccl
