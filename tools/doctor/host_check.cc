#include "doctor/host_check.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>

#include "doctor/pair_result.h"
#include "transport/socket.h"
#include "transport/tcp_wire.h"
#include "verb/verb.h"

namespace mccl {
namespace {

// A connection per peer, and what Python and torch open.
constexpr uint64_t kOpenFilesLeast = 1024;
// 10 Gb/s for 3 ms, which is what a switched network with some queues takes.
constexpr int64_t kBufferBytesLeast = int64_t{4} << 20;

// Whether MCCL_SOCKET_IFNAME leaves this one, were it alone.
bool is_selected(const InterfaceAddress& one, const std::string& pattern) {
  return pattern.empty() || choose_interface({one}, pattern, "").is_ok();
}

std::string reason_of(const InterfaceAddress& one, const std::string& pattern) {
  const InterfaceKind kind = interface_kind(one.name);
  if (!is_selected(one, pattern))
    return fmt::format("rejected: MCCL_SOCKET_IFNAME={} does not select it", pattern);
  if (one.is_ipv6 && one.address.starts_with("fe8"))
    return "rejected: a link-local address is of no use without its scope";
  if (one.is_loopback) return "rejected: no other host reaches it";
  if (kind == InterfaceKind::Container) return "kept, but comes last: it is a container's";
  if (kind == InterfaceKind::Tunnel) return "kept, but it is a tunnel";
  return one.is_ipv6 ? "kept, after IPv4" : "kept, after the chosen one";
}

std::string congestion_control_of(int socket) {
#if defined(TCP_CONGESTION)
  std::array<char, 64> name{};
  socklen_t length_bytes = name.size() - 1;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length_bytes) == 0)
    return name.data();
#else
  (void)socket;
#endif
  return "";
}

// The last of the three numbers of tcp_rmem or tcp_wmem.
int64_t read_buffer_bytes_max(const char* name) {
  std::ifstream file(name);
  int64_t least = 0, usual = 0, most = 0;
  return file >> least >> usual >> most ? most : 0;
}

}  // namespace

std::vector<CheckRow> check_interfaces(const std::vector<InterfaceAddress>& interfaces,
                                       const std::string& pattern) {
  std::vector<CheckRow> rows;
  const Result<InterfaceAddress> chosen = choose_interface(interfaces, pattern, "");
  for (const InterfaceAddress& one : interfaces) {
    const InterfaceKind kind = interface_kind(one.name);
    const bool is_chosen =
        chosen.is_ok() && chosen.value().address == one.address && chosen.value().name == one.name;
    const bool is_poor = kind == InterfaceKind::Loopback || kind == InterfaceKind::Tunnel ||
                         kind == InterfaceKind::Container;
    std::string reason = reason_of(one, pattern);
    if (is_chosen) reason = "chosen unless the rendezvous host is reached by another one";
    if (is_chosen && is_poor)
      reason =
          "chosen, for want of a better one: other hosts may not reach it; "
          "MCCL_SOCKET_IFNAME chooses";
    rows.push_back({.subject = "interface",
                    .is_ok = !(is_chosen && is_poor),
                    .text = fmt::format("{} {} ({}): {}", one.name, one.address,
                                        interface_kind_name(kind), reason)});
  }
  if (!chosen.is_ok())
    rows.push_back({.subject = "interface", .is_ok = false, .text = chosen.status().message()});
  return rows;
}

CheckRow check_ports(const Config& config, const std::string& address) {
  TcpOptions options;
  options.listen_address = address;
  options.port_first = config.port_first;
  options.port_last = config.port_last;
  const Result<std::unique_ptr<WireContext>> made = make_tcp_context(options);
  if (!made.is_ok()) return {.subject = "ports", .is_ok = false, .text = made.status().message()};
  if (config.port_first == 0)
    return {.subject = "ports",
            .text = fmt::format("listened at {}; any port, as MCCL_PORT_RANGE is unset: a firewall "
                                "needs a range",
                                made.value()->address())};
  return {.subject = "ports",
          .text = fmt::format("listened at {}, of MCCL_PORT_RANGE={}-{}", made.value()->address(),
                              config.port_first, config.port_last)};
}

CheckRow check_open_files(uint64_t limit, uint64_t most) {
  if (limit >= kOpenFilesLeast)
    return {.subject = "open files", .text = fmt::format("{} at once", limit)};
  return {.subject = "open files",
          .is_ok = false,
          .text = fmt::format("{} at once, at least {} are wanted: `ulimit -n {}` before the job",
                              limit, kOpenFilesLeast, std::min(kOpenFilesLeast, most))};
}

CheckRow check_congestion_control(const std::string& in_use, const std::string& chosen) {
  if (!chosen.empty() && chosen == in_use)
    return {.subject = "congestion", .text = fmt::format("{}, as the system has it", chosen)};
  if (!chosen.empty())
    return {.subject = "congestion",
            .text = fmt::format("{} for this library; the system has {}", chosen, in_use)};
  if (in_use.empty()) return {.subject = "congestion", .text = "as the system has it"};
  return {.subject = "congestion",
          .is_ok = false,
          .text = fmt::format("{}: the kernel allows neither cubic nor reno; bbr moves a half to a "
                              "third of their bytes in small virtual machines",
                              in_use)};
}

CheckRow check_buffers(const Config& config, int64_t send_bytes_max, int64_t recv_bytes_max) {
  if (config.socket_buffer_bytes > 0)
    return {.subject = "buffers",
            .text = fmt::format("MCCL_SOCKET_BUFFER={}, fixed", config.socket_buffer_bytes)};
  if (send_bytes_max == 0 || recv_bytes_max == 0)
    return {.subject = "buffers", .text = "as the system tunes them"};
  const std::string sizes = fmt::format("up to {} bytes to send, {} to receive",
                                        write_bytes(send_bytes_max), write_bytes(recv_bytes_max));
  if (std::min(send_bytes_max, recv_bytes_max) >= kBufferBytesLeast)
    return {.subject = "buffers", .text = sizes};
  return {.subject = "buffers",
          .is_ok = false,
          .text = fmt::format("{}, at least {} are wanted: raise the last number of "
                              "net.ipv4.tcp_wmem and net.ipv4.tcp_rmem",
                              sizes, write_bytes(kBufferBytesLeast))};
}

std::vector<CheckRow> check_host(const Config& config) {
  const Result<std::vector<InterfaceAddress>> interfaces = list_interfaces();
  if (!interfaces.is_ok())
    return {{.subject = "interface", .is_ok = false, .text = interfaces.status().message()}};
  std::vector<CheckRow> rows = check_interfaces(interfaces.value(), config.socket_interfaces);
  const Result<InterfaceAddress> chosen =
      choose_interface(interfaces.value(), config.socket_interfaces, "");
  if (chosen.is_ok()) rows.push_back(check_ports(config, chosen.value().address));

  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0)
    rows.push_back(check_open_files(files.rlim_cur, files.rlim_max));
  const FileDescriptor socket = make_stream_socket(AF_INET);
  if (socket.is_open()) {
    const std::string in_use = congestion_control_of(socket.number());
    rows.push_back(check_congestion_control(
        in_use, choose_congestion_control(socket.number(), TcpOptions().congestion_controls)));
  }
  rows.push_back(check_buffers(config, read_buffer_bytes_max("/proc/sys/net/ipv4/tcp_wmem"),
                               read_buffer_bytes_max("/proc/sys/net/ipv4/tcp_rmem")));
  return rows;
}

}  // namespace mccl
