// TCP: non-blocking sockets under one epoll (kqueue on macOS) descriptor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "mccl/wire.h"

namespace mccl {

struct TcpOptions {
  std::string listen_address =
      "127.0.0.1";     // numeric IPv4 or IPv6; the listener binds this one only
  int port_first = 0;  // 0: any port; else the first free one in [first, last]
  int port_last = 0;
  int socket_buffer_bytes = 0;  // 0: leave to the kernel's autotuning
  // Tried in this order, the first one that the kernel allows is used; "" keeps the system's.
  std::vector<std::string> congestion_controls = {"cubic", "reno"};
};

// Binds and listens. Network with the address and the kernel's words when that fails. Descriptors
// are close-on-exec. SIGPIPE is never raised. Connections set TCP_NODELAY and the congestion
// control.
Result<std::unique_ptr<WireContext>> make_tcp_context(const TcpOptions& options);

}  // namespace mccl
