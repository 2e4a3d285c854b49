#include "comm/store_address.h"

#include <fmt/format.h>
#include <netdb.h>

#include <cstring>
#include <memory>

namespace mccl {

Result<std::vector<SocketAddress>> resolve_host(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (error != 0)
    return Status(StatusCode::Network, fmt::format("cannot resolve the store's host \"{}\": {}",
                                                   host, ::gai_strerror(error)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, &::freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    if (each->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.length_bytes = each->ai_addrlen;
    addresses.push_back(address);
  }
  return addresses;
}

}  // namespace mccl
