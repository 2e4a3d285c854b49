// What make_tcp_store() makes, with the parts that a test replaces.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/store_address.h"
#include "mccl/status.h"
#include "mccl/store.h"
#include "transport/socket.h"

namespace mccl {

struct TcpStoreOptions {
  // Called on a thread of its own, which may outlive the store; not for numeric addresses.
  std::function<Result<std::vector<SocketAddress>>(const std::string& host, uint16_t port)>
      resolve = &resolve_host;
  // How long one address of several may let a connection wait before the next one is tried: a
  // firewall may drop what goes to the first. Twice as long in every further round.
  TimeNs address_ns = 2 * kNsPerSecond;
};

// As make_tcp_store() of a process that does not serve.
Result<std::shared_ptr<Store>> connect_tcp_store(const std::string& host, int port,
                                                 int64_t timeout_ns,
                                                 const std::function<bool()>& interrupted,
                                                 TcpStoreOptions options);

}  // namespace mccl
