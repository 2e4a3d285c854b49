// Descriptors, socket addresses and socket options: the only part of the transport that spells out
// the differences between Linux and macOS, besides the pollers.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mccl/status.h"
#include "transport/peer_silence.h"

namespace mccl {

// For send(): a broken connection is an error number, not a signal.
#if defined(MSG_NOSIGNAL)
constexpr int kNoSignalFlag = MSG_NOSIGNAL;
#else
constexpr int kNoSignalFlag = 0;  // macOS: set_stream_options() has switched the signal off
#endif

// Whether a call on a non-blocking socket could do nothing now.
bool is_would_block(int error_number);

// Owns one descriptor and closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  ~FileDescriptor() { close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close();  // idempotent

 private:
  int number_;
};

// A numeric IPv4 or IPv6 address with a port. A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length_bytes = 0;

  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
};

// "192.168.1.7" or "::1", without brackets. InvalidArgument names what is not a numeric address.
Result<SocketAddress> parse_host(const std::string& host, uint16_t port);

// "tcp://192.168.1.7:40112" or "tcp://[::1]:40112"; the port is 1 to 65535.
Result<SocketAddress> parse_tcp_address(const std::string& text);

// "192.168.1.7:40112" or "[::1]:40112".
std::string to_string(const SocketAddress& address);

// The two ends of a socket. Empty (family 0) when the kernel does not know.
SocketAddress local_address(int socket);
SocketAddress peer_address(int socket);

// "Connection refused". Any thread.
std::string error_text(int error_number);

// A non-blocking, close-on-exec stream socket; not open when the kernel refused (errno says why).
FileDescriptor make_stream_socket(int family);

// The same for one waiting connection of `listener`.
FileDescriptor accept_stream_socket(int listener);

// TCP_NODELAY, no SIGPIPE, and the buffer sizes unless `buffer_bytes` is 0. The kernel may cap the
// sizes silently. Must come before connect() and listen(): the window scale is agreed there.
void set_stream_options(int socket, int buffer_bytes);

// Lets the kernel ask the peer's host for a sign of life. Must come before connect(). What the
// kernel does not know it leaves out: Linux before 6.15 lets 120 s pass between two repetitions.
void set_silence_timers(int socket, const SilenceTimers& timers);

// Nothing where the kernel does not tell (macOS, whose own timers have to do) or `socket` is not
// connected.
std::optional<PeerSilence> peer_silence(int socket);

// Returns the first of `names` that the kernel allows for this socket and leaves it set. "" stops
// the search and keeps the system's choice; so does the end of the list. On Linux, connections
// accepted by a listener inherit it.
std::string choose_congestion_control(int socket, const std::vector<std::string>& names);

// Bytes, the end of the stream included, that the peer's kernel has not acknowledged; 0 when that
// cannot be told.
int unsent_bytes(int socket);

// Sets what choose_congestion_control() returned on another socket; "" does nothing.
void set_congestion_control(int socket, const std::string& name);

}  // namespace mccl
