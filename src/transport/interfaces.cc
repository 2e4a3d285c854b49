// The choice of the address that peers connect to. Everything but list_interfaces() and the
// question about the route works on values, so that tests give literal hosts.
//
// A pattern with names selects in its own order: the first item that matches anything decides.
// Within one item, with an exclusion, and with no pattern at all, the best candidate decides
// (quality_of), and among equals the first in the kernel's order.
#include "transport/interfaces.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "transport/socket.h"

namespace mccl {
namespace {

using Candidates = std::vector<const InterfaceAddress*>;

// The bytes of a numeric address: 4, 16, or none if `host` is not one.
std::span<const uint8_t> address_bytes(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return {reinterpret_cast<const uint8_t*>(&ipv4->sin_addr), 4};
  }
  const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return {reinterpret_cast<const uint8_t*>(&ipv6->sin6_addr), 16};
}

std::string host_text(const SocketAddress& address) {
  std::string text = to_string(address);
  text.resize(text.rfind(':'));
  return text.front() == '[' ? text.substr(1, text.size() - 2) : text;
}

bool is_in_network(const SocketAddress& address, const SocketAddress& network, int prefix_length) {
  if (address.family() != network.family()) return false;
  const std::span<const uint8_t> left = address_bytes(address);
  const std::span<const uint8_t> right = address_bytes(network);
  int rest_bits = prefix_length;
  for (size_t index = 0; index < left.size() && rest_bits > 0; ++index, rest_bits -= 8) {
    const int shift = std::max(0, 8 - rest_bits);
    if ((left[index] >> shift) != (right[index] >> shift)) return false;
  }
  return true;
}

bool starts_with_any(const std::string& text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.rfind(prefix, 0) == 0; });
}

// Smaller is better.
int quality_of(const InterfaceAddress& candidate) {
  // Without its scope a link-local address can be neither bound nor reached.
  if (candidate.is_ipv6 && starts_with_any(candidate.address, {"fe8", "fe9", "fea", "feb"}))
    return 6;
  if (candidate.is_loopback) return candidate.is_ipv6 ? 5 : 4;
  const bool is_virtual = starts_with_any(candidate.name, {"docker", "veth", "virbr", "br-"});
  return (is_virtual ? 2 : 0) + (candidate.is_ipv6 ? 1 : 0);
}

const InterfaceAddress* find_best(const Candidates& candidates) {
  const auto best = std::min_element(
      candidates.begin(), candidates.end(),
      [](const auto* left, const auto* right) { return quality_of(*left) < quality_of(*right); });
  return best == candidates.end() ? nullptr : *best;
}

std::string list_text(const std::vector<InterfaceAddress>& interfaces) {
  std::string text;
  for (const InterfaceAddress& interface : interfaces)
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", interface.name, interface.address,
                        interface.is_up ? "" : " (down)");
  return text.empty() ? "none" : text;
}

Status refuse(const std::string& pattern, const std::string& reason,
              const std::vector<InterfaceAddress>& interfaces) {
  return Status(StatusCode::InvalidArgument,
                fmt::format("MCCL_SOCKET_IFNAME=\"{}\": {}; this host has {}", pattern, reason,
                            list_text(interfaces)));
}

// One item of a pattern, in the form that it was recognised as.
struct Item {
  enum class Kind : uint8_t { Prefix, Exact, Glob, Address, Network };
  Kind kind = Kind::Prefix;
  std::string name;
  SocketAddress network;
  int prefix_length = 0;
};

Result<Item> parse_network(const std::string& text) {
  const size_t slash = text.find('/');
  Item item;
  item.kind = Item::Kind::Network;
  Result<SocketAddress> network = parse_host(text.substr(0, slash), 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + slash + 1, end, item.prefix_length);
  const int bits = network.is_ok() && network.value().family() == AF_INET6 ? 128 : 32;
  if (!network.is_ok() || error != std::errc() || stop != end || item.prefix_length < 0 ||
      item.prefix_length > bits)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("\"{}\" is not a block such as 10.1.0.0/16 or fd00::/8", text));
  item.network = network.value();
  return item;
}

Result<Item> parse_item(const std::string& text) {
  if (text.front() == '=') return Item{Item::Kind::Exact, text.substr(1), {}, 0};
  if (text.find('/') != std::string::npos) return parse_network(text);
  if (Result<SocketAddress> address = parse_host(text, 0); address.is_ok())
    return Item{Item::Kind::Address, text, address.value(),
                address.value().family() == AF_INET6 ? 128 : 32};
  if (text.find_first_of("*?[") != std::string::npos) return Item{Item::Kind::Glob, text, {}, 0};
  return Item{Item::Kind::Prefix, text, {}, 0};
}

bool matches(const Item& item, const InterfaceAddress& candidate) {
  switch (item.kind) {
    case Item::Kind::Prefix:
      return candidate.name.rfind(item.name, 0) == 0;
    case Item::Kind::Exact:
      return candidate.name == item.name;
    case Item::Kind::Glob:
      return ::fnmatch(item.name.c_str(), candidate.name.c_str(), 0) == 0;
    case Item::Kind::Address:
    case Item::Kind::Network: {
      Result<SocketAddress> address = parse_host(candidate.address, 0);
      return address.is_ok() && is_in_network(address.value(), item.network, item.prefix_length);
    }
  }
  return false;
}

struct Pattern {
  bool is_exclusion = false;
  std::vector<Item> items;
};

// A leading `=` holds for the whole list, as in NCCL: "=eth0,eth1", "^=docker0".
Result<Pattern> parse_pattern(std::string_view text) {
  Pattern pattern;
  pattern.is_exclusion = !text.empty() && text.front() == '^';
  if (pattern.is_exclusion) text.remove_prefix(1);
  const bool is_exact = !text.empty() && text.front() == '=';
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string word(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    word.erase(0, word.find_first_not_of(" \t"));
    word.erase(word.find_last_not_of(" \t") + 1);
    if (word.empty()) continue;
    if (is_exact && word.front() != '=') word.insert(0, 1, '=');
    Result<Item> item = parse_item(word);
    if (!item.is_ok()) return item.status();
    pattern.items.push_back(item.value());
  }
  if (pattern.items.empty()) return Status(StatusCode::InvalidArgument, "it names nothing");
  return pattern;
}

// Numeric, or a name that the host can resolve; asking for a name may block as its resolver does.
std::optional<SocketAddress> find_host(const std::string& host) {
  if (host.empty()) return std::nullopt;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::copy_n(reinterpret_cast<const char*>(entry->ai_addr), entry->ai_addrlen,
                reinterpret_cast<char*>(&address.storage));
    address.length_bytes = entry->ai_addrlen;
    return address;
  }
  return std::nullopt;
}

bool is_loopback(const SocketAddress& address) {
  const std::span<const uint8_t> bytes = address_bytes(address);
  if (bytes.size() == 4) return bytes[0] == 127;
  return bytes[15] == 1 &&
         std::all_of(bytes.begin(), bytes.end() - 1, [](uint8_t b) { return b == 0; });
}

// The kernel's answer: connecting a datagram socket chooses the source address and sends nothing.
std::string find_source_address(const SocketAddress& destination) {
  SocketAddress target = destination;
  // Port 9, discard: BSD refuses port 0. The port's place is the same for both families.
  reinterpret_cast<sockaddr_in*>(&target.storage)->sin_port = htons(9);
  const FileDescriptor socket(::socket(target.family(), SOCK_DGRAM, 0));
  if (!socket.is_open() || ::connect(socket.number(), target.raw(), target.length_bytes) != 0)
    return "";
  const SocketAddress source = local_address(socket.number());
  return source.length_bytes == 0 ? "" : host_text(source);
}

// The candidate that routes to the master, or null when there is no master or it does not tell.
const InterfaceAddress* find_towards(const Candidates& candidates,
                                     const std::string& master_address) {
  const std::optional<SocketAddress> master = find_host(master_address);
  if (!master || is_loopback(*master)) return nullptr;
  const std::string source = find_source_address(*master);
  for (const InterfaceAddress* candidate : candidates)
    if (candidate->address == source) return candidate;
  // The kernel would leave by an address that was excluded (or that tests do not list): the
  // candidate whose own network holds the master reaches it as well.
  const InterfaceAddress* best = nullptr;
  for (const InterfaceAddress* candidate : candidates) {
    Result<SocketAddress> own = parse_host(candidate->address, 0);
    if (own.is_ok() && is_in_network(*master, own.value(), candidate->prefix_length) &&
        candidate->prefix_length > (best == nullptr ? 0 : best->prefix_length))
      best = candidate;
  }
  return best;
}

int prefix_length_of(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  SocketAddress copy;
  const size_t length = mask->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::copy_n(reinterpret_cast<const char*>(mask), length, reinterpret_cast<char*>(&copy.storage));
  int bits = 0;
  for (const uint8_t byte : address_bytes(copy)) bits += std::popcount(byte);
  return bits;
}

}  // namespace

Result<std::vector<InterfaceAddress>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0)
    return Status(StatusCode::Network, "cannot list the interfaces: " + error_text(errno));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, ::freeifaddrs);
  std::vector<InterfaceAddress> interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.length_bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::copy_n(reinterpret_cast<const char*>(entry->ifa_addr), address.length_bytes,
                reinterpret_cast<char*>(&address.storage));
    interfaces.push_back({.name = entry->ifa_name,
                          .address = host_text(address),
                          .is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0,
                          .is_ipv6 = family == AF_INET6,
                          .is_up = true,
                          .prefix_length = prefix_length_of(entry->ifa_netmask)});
  }
  return interfaces;
}

Result<InterfaceAddress> choose_interface(const std::vector<InterfaceAddress>& interfaces,
                                          const std::string& pattern,
                                          const std::string& master_address) {
  Candidates candidates;
  for (const InterfaceAddress& interface : interfaces)
    if (interface.is_up) candidates.push_back(&interface);

  if (!pattern.empty()) {
    Result<Pattern> parsed = parse_pattern(pattern);
    if (!parsed.is_ok()) return refuse(pattern, parsed.status().message(), interfaces);
    for (const Item& item : parsed.value().items) {
      Candidates selected;
      for (const InterfaceAddress* candidate : candidates)
        if (matches(item, *candidate) != parsed.value().is_exclusion) selected.push_back(candidate);
      if (parsed.value().is_exclusion) {
        candidates = std::move(selected);
      } else if (const InterfaceAddress* best = find_best(selected)) {
        return *best;
      }
    }
    if (!parsed.value().is_exclusion) return refuse(pattern, "no interface matches", interfaces);
    if (candidates.empty()) return refuse(pattern, "every interface is excluded", interfaces);
  }

  if (const InterfaceAddress* routed = find_towards(candidates, master_address)) return *routed;
  if (const InterfaceAddress* best = find_best(candidates)) return *best;
  return Status(StatusCode::InvalidArgument,
                "no interface is up; this host has " + list_text(interfaces));
}

}  // namespace mccl
