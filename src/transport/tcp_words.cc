#include "transport/tcp_words.h"

#include <fmt/format.h>

#include <cerrno>

#include "transport/socket.h"

namespace mccl {
namespace {

std::string seconds_text(TimeNs time_ns) {
  return fmt::format("{:.1f} s", static_cast<double>(time_ns) / static_cast<double>(kNsPerSecond));
}

std::string duration_text(TimeNs time_ns) {
  return time_ns > 0 ? " for " + seconds_text(time_ns) : "";
}

// The kernel gives an end its address once there is a way to the peer.
std::string origin_text(const std::string& local) {
  return local.ends_with(":0") ? "" : " from " + local;
}

// What stands in the way of a packet that never left, or that a router sent back.
std::string obstacle(int error_number, Platform platform) {
  if (platform == Platform::MacOs && error_number != ENETUNREACH)
    return "allow the program, or the terminal that started it, in System Settings, Privacy & "
           "Security, Local Network; else see whether the host is up";
  switch (error_number) {
    case ENETUNREACH:
      return "no route of this host leads there; MCCL_SOCKET_IFNAME chooses another network";
    case EPERM:
    case EACCES:
      return "a firewall or a route of this host forbids it";
    default:
      return "the host is down, its cable is, or MCCL_SOCKET_IFNAME has to name another network";
  }
}

}  // namespace

Status connect_failure(int error_number, const std::string& local, const std::string& peer,
                       TimeNs waited_ns, Platform platform) {
  switch (error_number) {
    case ECONNREFUSED:
      return Status(StatusCode::Network,
                    fmt::format("nobody listens at tcp://{}: the process is gone or the port is "
                                "another one's",
                                peer));
    case ETIMEDOUT:
      return Status(StatusCode::PeerLost,
                    fmt::format("no answer from tcp://{}{}: is a firewall dropping what is sent "
                                "there, or is the host down?",
                                peer, duration_text(waited_ns)));
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case EPERM:
    case EACCES:
      return Status(StatusCode::Network,
                    fmt::format("cannot reach tcp://{}{} ({}): {}", peer, origin_text(local),
                                error_text(error_number), obstacle(error_number, platform)));
    default:
      return Status(StatusCode::Network, fmt::format("cannot connect to tcp://{}{}: {}", peer,
                                                     origin_text(local), error_text(error_number)));
  }
}

Status connection_failure(int error_number, const std::string& wire, TimeNs silent_ns) {
  switch (error_number) {
    case EPIPE:
    case ECONNRESET:
    case ECONNABORTED:
      return Status(StatusCode::PeerLost, wire + ": " + error_text(error_number));
    // What a router or this host's own network said while nothing came is the reason that the
    // kernel gives in place of ETIMEDOUT.
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
      return Status(
          StatusCode::PeerLost,
          fmt::format("{}: the peer's host has not answered{} ({}): see whether it is up "
                      "and its network connected; MCCL_PEER_TIMEOUT says how long to wait",
                      wire, duration_text(silent_ns), error_text(error_number)));
    default:
      return Status(StatusCode::Network, wire + ": " + error_text(error_number));
  }
}

}  // namespace mccl
