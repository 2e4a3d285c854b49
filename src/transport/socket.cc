#include "transport/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>
#include <system_error>

namespace mccl {
namespace {

constexpr std::string_view kScheme = "tcp://";

Status not_a_tcp_address(const std::string& text, const char* reason) {
  return Status(StatusCode::InvalidArgument,
                fmt::format("\"{}\" is not a tcp address ({}); expected tcp://192.168.1.7:40112 or "
                            "tcp://[::1]:40112",
                            text, reason));
}

#if !defined(__APPLE__)
// TCP_RTO_MAX_MS of Linux 6.15, newer than the headers of most distributions.
constexpr int kRetransmitIntervalMaxOption = 44;
#endif

void set_int_option(int socket, int level, int option, int value) {
  // A refused option costs speed, never correctness, so the answer does not matter.
  (void)::setsockopt(socket, level, option, &value, sizeof value);
}

#if defined(__APPLE__)
// macOS has neither SOCK_CLOEXEC nor accept4: a fork between the two calls leaks the descriptor.
FileDescriptor prepare(int number) {
  if (number < 0) return FileDescriptor();
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) | O_NONBLOCK);
  return FileDescriptor(number);
}
#endif

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  number_ = other.number_;
  other.number_ = -1;
  return *this;
}

void FileDescriptor::close() {
  // Never repeated on EINTR: Linux has released the number by then and another thread may own it.
  if (is_open()) ::close(number_);
  number_ = -1;
}

uint16_t SocketAddress::port() const {
  if (family() == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

Result<SocketAddress> parse_host(const std::string& host, uint16_t port) {
  SocketAddress address;
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &ipv4->sin_addr) == 1) {
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(port);
    address.length_bytes = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, host.c_str(), &ipv6->sin6_addr) == 1) {
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(port);
    address.length_bytes = sizeof(sockaddr_in6);
  } else {
    return Status(StatusCode::InvalidArgument,
                  fmt::format("\"{}\" is not a numeric IPv4 or IPv6 address", host));
  }
  return address;
}

Result<SocketAddress> parse_tcp_address(const std::string& text) {
  std::string_view rest = text;
  if (rest.substr(0, kScheme.size()) != kScheme) return not_a_tcp_address(text, "wrong scheme");
  rest.remove_prefix(kScheme.size());
  const size_t colon = rest.rfind(':');
  if (colon == std::string_view::npos) return not_a_tcp_address(text, "no port");

  std::string_view host = rest.substr(0, colon);
  const bool is_bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  const bool has_colon = host.find(':') != std::string_view::npos;
  if (is_bracketed != has_colon) return not_a_tcp_address(text, "IPv6 goes in brackets");

  const std::string_view digits = rest.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0)
    return not_a_tcp_address(text, "the port is not 1 to 65535");

  Result<SocketAddress> address = parse_host(std::string(host), port);
  if (!address.is_ok()) return not_a_tcp_address(text, "the host is not numeric");
  return address;
}

std::string to_string(const SocketAddress& address) {
  char host[INET6_ADDRSTRLEN] = "unknown";
  if (address.family() == AF_INET) {
    const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof host);
    return fmt::format("{}:{}", host, address.port());
  }
  if (address.family() == AF_INET6) {
    const auto* ipv6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
    ::inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof host);
    return fmt::format("[{}]:{}", host, address.port());
  }
  return host;
}

SocketAddress local_address(int socket) {
  SocketAddress address;
  address.length_bytes = sizeof address.storage;
  if (::getsockname(socket, address.raw(), &address.length_bytes) != 0) return {};
  return address;
}

SocketAddress peer_address(int socket) {
  SocketAddress address;
  address.length_bytes = sizeof address.storage;
  if (::getpeername(socket, address.raw(), &address.length_bytes) != 0) return {};
  return address;
}

bool is_would_block(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK;
}

std::string error_text(int error_number) {
  return std::generic_category().message(error_number);
}

FileDescriptor make_stream_socket(int family) {
#if defined(__APPLE__)
  return prepare(::socket(family, SOCK_STREAM, 0));
#else
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
#endif
}

FileDescriptor accept_stream_socket(int listener) {
#if defined(__APPLE__)
  return prepare(::accept(listener, nullptr, nullptr));
#else
  return FileDescriptor(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
#endif
}

void set_stream_options(int socket, int buffer_bytes) {
  set_int_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
#if defined(SO_NOSIGPIPE)
  set_int_option(socket, SOL_SOCKET, SO_NOSIGPIPE, 1);
#endif
  if (buffer_bytes > 0) {
    set_int_option(socket, SOL_SOCKET, SO_SNDBUF, buffer_bytes);
    set_int_option(socket, SOL_SOCKET, SO_RCVBUF, buffer_bytes);
  }
}

void set_silence_timers(int socket, const SilenceTimers& timers) {
  set_int_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, timers.keep_interval_s);
  set_int_option(socket, IPPROTO_TCP, TCP_KEEPCNT, timers.keep_count);
#if defined(__APPLE__)
  const int timeout_s = timers.keep_idle_s + timers.keep_interval_s * timers.keep_count;
  set_int_option(socket, IPPROTO_TCP, TCP_KEEPALIVE, timers.keep_idle_s);
  set_int_option(socket, IPPROTO_TCP, TCP_CONNECTIONTIMEOUT, timeout_s);
  set_int_option(socket, IPPROTO_TCP, TCP_RXT_CONNDROPTIME, timeout_s);
#else
  // Not TCP_USER_TIMEOUT: it also ends a connection whose peer keeps its window closed and answers
  // every probe, which is what a stopped process looks like.
  set_int_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, timers.keep_idle_s);
  set_int_option(socket, IPPROTO_TCP, TCP_SYNCNT, timers.connect_tries);
  set_int_option(socket, IPPROTO_TCP, kRetransmitIntervalMaxOption,
                 timers.retransmit_interval_max_ms);
#endif
}

std::optional<PeerSilence> peer_silence(int socket) {
#if defined(__APPLE__)
  (void)socket;
  return std::nullopt;
#else
  tcp_info info{};
  socklen_t length_bytes = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length_bytes) != 0) return std::nullopt;
  if (info.tcpi_state == TCP_SYN_SENT || info.tcpi_state == TCP_LISTEN) return std::nullopt;
  // Data is no answer to Linux: the one clock runs from the last acknowledgement, the other from
  // the last data. Probes count up to the next acknowledgement of whatever it is.
  const TimeNs silent_ms = std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
  return PeerSilence{.is_asked = info.tcpi_unacked > 0 || info.tcpi_probes > 0,
                     .silent_ns = silent_ms * kNsPerMs};
#endif
}

std::string choose_congestion_control(int socket, const std::vector<std::string>& names) {
#if defined(TCP_CONGESTION)
  for (const std::string& name : names) {
    if (name.empty()) return "";
    // EPERM: known but reserved to administrators; ENOENT: not in this kernel.
    const auto length_bytes = static_cast<socklen_t>(name.size());
    if (::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), length_bytes) == 0)
      return name;
  }
#else
  (void)socket;
  (void)names;
#endif
  return "";
}

int unsent_bytes(int socket) {
  int bytes = 0;
#if defined(SO_NWRITE)
  socklen_t length_bytes = sizeof bytes;
  if (::getsockopt(socket, SOL_SOCKET, SO_NWRITE, &bytes, &length_bytes) != 0) return 0;
#else
  if (::ioctl(socket, TIOCOUTQ, &bytes) != 0) return 0;
#endif
  return bytes;
}

void set_congestion_control(int socket, const std::string& name) {
  if (!name.empty()) (void)choose_congestion_control(socket, {name});
}

}  // namespace mccl
