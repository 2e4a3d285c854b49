// TCP: non-blocking sockets under one epoll (kqueue on macOS) descriptor.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "mccl/wire.h"

namespace mccl {

struct TcpOptions {
  std::string listen_address =
      "127.0.0.1";     // numeric IPv4 or IPv6; the listener binds this one only
  int port_first = 0;  // 0: any port; else the first free one in [first, last]
  int port_last = 0;
  int socket_buffer_bytes = 0;  // 0: leave to the kernel's autotuning
  // For how long a peer's host may be silent, at least a second; 0: for ever. An idle connection
  // then ends within another second; one with bytes under way, or not made yet, when check_peer()
  // is asked. Where a stopped peer had its window closed and then vanishes, the time runs from the
  // next probe of the window: Linux 6.15 sends one in a second or an eighth of the timeout, older
  // kernels in as long again as the window has been closed, 120 s at most.
  TimeNs peer_timeout_ns = 10 * kNsPerSecond;
  // Tried in this order, the first one that the kernel allows is used; "" keeps the system's.
  std::vector<std::string> congestion_controls = {"cubic", "reno"};
};

// Binds and listens. Network with the address, the kernel's words and, where the system shows it,
// who holds the port when that fails. Descriptors are close-on-exec. SIGPIPE is never raised.
// Connections set TCP_NODELAY and the congestion control.
Result<std::unique_ptr<WireContext>> make_tcp_context(const TcpOptions& options);

}  // namespace mccl
