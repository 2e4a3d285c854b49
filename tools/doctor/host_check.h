// What a host alone can say about its network: the one-host form of `mccl doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "transport/interfaces.h"

namespace mccl {

// One line of the answer.
struct CheckRow {
  std::string_view subject;  // "interface", "ports"
  bool is_ok = true;
  std::string text;
};

// Which addresses the engine would choose from, and why not each other one.
std::vector<CheckRow> check_interfaces(const std::vector<InterfaceAddress>& interfaces,
                                       const std::string& pattern);

// Listens once, as the engine would. `address`: the chosen one.
CheckRow check_ports(const Config& config, const std::string& address);

// Descriptors that a process may open. `most`: what it may raise the limit to.
CheckRow check_open_files(uint64_t limit, uint64_t most);

// `in_use`: the system's; `chosen`: what the engine sets, empty when the kernel allows neither.
CheckRow check_congestion_control(const std::string& in_use, const std::string& chosen);

// What the kernel's tuning may give one connection; 0 when it does not tell.
CheckRow check_buffers(const Config& config, int64_t send_bytes_max, int64_t recv_bytes_max);

// All of it, of this host. Blocks no longer than a listen() takes.
std::vector<CheckRow> check_host(const Config& config);

}  // namespace mccl
