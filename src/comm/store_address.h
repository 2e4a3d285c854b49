// The addresses behind a host's name.
#pragma once

#include <string>
#include <vector>

#include "mccl/status.h"
#include "transport/socket.h"

namespace mccl {

// In the resolver's order. Network when there are none; resolving may block.
Result<std::vector<SocketAddress>> resolve_host(const std::string& host, uint16_t port);

}  // namespace mccl
