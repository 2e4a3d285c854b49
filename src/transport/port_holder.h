// Who listens at a port that this process could not have. Only for messages: it reads many files of
// /proc and may find nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transport/socket.h"

namespace mccl {

// The inodes of the sockets in a text of the form of /proc/net/tcp or tcp6 that listen at the port
// of `address` and at its host or at every host (at any, when `address` is that of every host).
std::vector<uint64_t> find_listening_inodes(std::string_view table, const SocketAddress& address);

struct PortHolder {
  int process = 0;
  std::string command;  // with its arguments, shortened; empty when it cannot be read
};

// Nothing when no visible process listens there: another user's, one in another container, a socket
// that is bound without listening; and always on macOS.
std::optional<PortHolder> find_port_holder(const SocketAddress& address);

// "port 5000 is held by process 77 (python train.py)", or how to find out.
std::string describe_port_holder(const SocketAddress& address);

}  // namespace mccl
