// The asking half of the rendezvous, and the store that both halves make.
//
// A call takes a connection that is idle or makes one, sends its request, waits for the answer and
// gives the connection back; so calls of several threads do not wait for each other. A connection
// on which anything went wrong is closed, and the next call makes a new one. The server may have
// ended an idle connection for want of places: then the call makes a new one itself. To ask twice
// does no harm.
//
// The process that serves asks itself over the same sockets: one path for every rank.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/store_address.h"
#include "comm/store_message.h"
#include "mccl/rendezvous.h"
#include "transport/poller.h"
#include "transport/socket.h"

namespace mccl {
namespace {

// How long an answer may take beyond the time that the request gives the server.
constexpr TimeNs kAnswerNs = 30 * kNsPerSecond;
// Between two attempts to connect: the pause doubles from the first to the second.
constexpr TimeNs kPauseMinNs = 10 * kNsPerMs;
constexpr TimeNs kPauseMaxNs = 500 * kNsPerMs;

class TcpStore final : public Store {
 public:
  TcpStore(std::string host, uint16_t port, std::unique_ptr<StoreServer> server)
      : host_(std::move(host)), port_(port), server_(std::move(server)) {}

  // Connects, again and again while nobody serves.
  Status connect_until(TimeNs deadline);

  Status set(const std::string& key, const std::string& value) override;
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override;

 private:
  struct Answer {
    StoreOutcome outcome;
    std::string value;
  };

  // Blocks until the socket is ready for `events` (POLLIN, POLLOUT). False: the deadline passed.
  bool wait_for(int socket, short events, TimeNs deadline) const;
  Result<FileDescriptor> connect_once(TimeNs deadline) const;
  Result<FileDescriptor> connect_to(const SocketAddress& address, TimeNs deadline) const;
  Result<Answer> exchange(const StoreRequestHeader& header, const std::string& body);
  Result<Answer> exchange_on(int socket, const std::string& request, TimeNs deadline) const;
  Status send_all(int socket, const std::string& bytes, TimeNs deadline) const;
  Status recv_all(int socket, char* data, size_t count, TimeNs deadline) const;
  Status failure(const std::string& reason) const;

  const std::string host_;
  const uint16_t port_;
  SystemClock clock_;
  std::unique_ptr<StoreServer> server_;  // null unless this process serves
  std::mutex mutex_;
  std::vector<FileDescriptor> idle_;  // under mutex_; at most one per thread that has called
};

Status TcpStore::failure(const std::string& reason) const {
  return Status(StatusCode::Network, fmt::format("the store at {} port {} failed: {}; does the "
                                                 "process that serves it still run?",
                                                 host_, port_, reason));
}

bool TcpStore::wait_for(int socket, short events, TimeNs deadline) const {
  for (;;) {
    const TimeNs left = deadline == kNever ? -1 : std::max<TimeNs>(deadline - clock_.now(), 0);
    pollfd descriptor{socket, events, 0};
    const int count = ::poll(&descriptor, 1, round_up_to_ms(left));
    if (count > 0) return true;
    if (count == 0 && left >= 0 && clock_.now() >= deadline) return false;
  }
}

Result<FileDescriptor> TcpStore::connect_to(const SocketAddress& address, TimeNs deadline) const {
  FileDescriptor socket = make_stream_socket(address.family());
  if (!socket.is_open()) return failure(error_text(errno));
  set_stream_options(socket.number(), 0);
  if (::connect(socket.number(), address.raw(), address.length_bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return failure(error_text(errno));
    if (!wait_for(socket.number(), POLLOUT, deadline)) return failure("no answer");
    int error_number = 0;
    socklen_t length_bytes = sizeof error_number;
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error_number, &length_bytes);
    if (error_number != 0) return failure(error_text(error_number));
  }
  // While nobody listens on a port of the ephemeral range, TCP may connect a socket to itself.
  if (to_string(local_address(socket.number())) == to_string(peer_address(socket.number())))
    return failure("nobody listens");
  return socket;
}

Result<FileDescriptor> TcpStore::connect_once(TimeNs deadline) const {
  Result<std::vector<SocketAddress>> addresses = resolve_host(host_, port_);
  if (!addresses.is_ok()) return addresses.status();
  Status last = failure("its name has no address");
  for (const SocketAddress& address : addresses.value()) {
    Result<FileDescriptor> socket = connect_to(address, deadline);
    if (socket.is_ok()) return socket;
    last = socket.status();
  }
  return last;
}

Status TcpStore::connect_until(TimeNs deadline) {
  for (TimeNs pause = kPauseMinNs;; pause = std::min(2 * pause, kPauseMaxNs)) {
    Result<FileDescriptor> socket = connect_once(deadline);
    if (socket.is_ok()) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(socket).value());
      return Status::ok();
    }
    if (clock_.now() >= deadline)
      return Status(StatusCode::Timeout, fmt::format("nobody has served the store in time: {}",
                                                     socket.status().message()));
    // poll() with nothing to watch, so that a pause has the same bound and clock as every wait.
    wait_for(-1, 0, std::min(deadline, deadline_after(clock_.now(), pause)));
  }
}

Status TcpStore::send_all(int socket, const std::string& bytes, TimeNs deadline) const {
  for (size_t sent_bytes = 0; sent_bytes < bytes.size();) {
    const ssize_t count =
        ::send(socket, bytes.data() + sent_bytes, bytes.size() - sent_bytes, kNoSignalFlag);
    if (count >= 0) {
      sent_bytes += static_cast<size_t>(count);
    } else if (is_would_block(errno)) {
      if (!wait_for(socket, POLLOUT, deadline)) return failure("it takes no request");
    } else if (errno != EINTR) {
      return failure(error_text(errno));
    }
  }
  return Status::ok();
}

Status TcpStore::recv_all(int socket, char* data, size_t count, TimeNs deadline) const {
  for (size_t received_bytes = 0; received_bytes < count;) {
    const ssize_t arrived = ::recv(socket, data + received_bytes, count - received_bytes, 0);
    if (arrived > 0) {
      received_bytes += static_cast<size_t>(arrived);
    } else if (arrived == 0) {
      return failure("it closed the connection");
    } else if (is_would_block(errno)) {
      if (!wait_for(socket, POLLIN, deadline)) return failure("no answer");
    } else if (errno != EINTR) {
      return failure(error_text(errno));
    }
  }
  return Status::ok();
}

Result<TcpStore::Answer> TcpStore::exchange_on(int socket, const std::string& request,
                                               TimeNs deadline) const {
  MCCL_RETURN_IF_ERROR(send_all(socket, request, deadline));
  StoreAnswerHeader header;
  MCCL_RETURN_IF_ERROR(recv_all(socket, reinterpret_cast<char*>(&header), sizeof header, deadline));
  if (header.magic != StoreAnswerHeader::kMagic || header.value_bytes > kStoreValueBytesMax)
    return failure("what answers there is no store of mccl");
  Answer answer{header.outcome, std::string(header.value_bytes, '\0')};
  MCCL_RETURN_IF_ERROR(recv_all(socket, answer.value.data(), answer.value.size(), deadline));
  return answer;
}

// After an exchange that failed: it was not for want of time.
bool is_closed_by_peer(int socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket, &byte, 1, MSG_PEEK);
  return count == 0 || (count < 0 && !is_would_block(errno));
}

Result<TcpStore::Answer> TcpStore::exchange(const StoreRequestHeader& header,
                                            const std::string& body) {
  const TimeNs deadline =
      deadline_after(clock_.now(), deadline_after(header.timeout_ns, kAnswerNs));
  FileDescriptor socket;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      socket = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  const auto connect = [&] {
    Result<FileDescriptor> made = connect_once(deadline);
    if (made.is_ok()) socket = std::move(made).value();
    return made.is_ok() ? Status::ok() : made.status();
  };
  const bool was_idle = socket.is_open();
  if (!was_idle) MCCL_RETURN_IF_ERROR(connect());
  const std::string request =
      std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
  Result<Answer> answer = exchange_on(socket.number(), request, deadline);
  if (!answer.is_ok() && was_idle && is_closed_by_peer(socket.number())) {
    MCCL_RETURN_IF_ERROR(connect());
    answer = exchange_on(socket.number(), request, deadline);
  }
  if (answer.is_ok()) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(socket));
  }
  return answer;
}

Status check_lengths(const std::string& key, size_t value_bytes) {
  if (key.size() > kStoreKeyBytesMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("a key of the store has {} bytes, at most {}: \"{:.40}...\"",
                              key.size(), kStoreKeyBytesMax, key));
  if (value_bytes > kStoreValueBytesMax)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("the store's value of \"{}\" has {} bytes, at most {}", key,
                              value_bytes, kStoreValueBytesMax));
  return Status::ok();
}

Status TcpStore::set(const std::string& key, const std::string& value) {
  MCCL_RETURN_IF_ERROR(check_lengths(key, value.size()));
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Set;
  header.key_bytes = static_cast<uint16_t>(key.size());
  header.value_bytes = static_cast<uint32_t>(value.size());
  return exchange(header, key + value).status();
}

Result<std::optional<std::string>> TcpStore::get(const std::string& key, int64_t timeout_ns) {
  MCCL_RETURN_IF_ERROR(check_lengths(key, 0));
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Get;
  header.key_bytes = static_cast<uint16_t>(key.size());
  header.timeout_ns = std::max<int64_t>(timeout_ns, 0);
  Result<Answer> answer = exchange(header, key);
  if (!answer.is_ok()) return answer.status();
  if (answer.value().outcome == StoreOutcome::Nothing) return std::optional<std::string>();
  return std::optional<std::string>(std::move(answer.value().value));
}

}  // namespace

Result<std::shared_ptr<Store>> make_tcp_store(const std::string& host, int port, bool is_server,
                                              int64_t timeout_ns) {
  if (port < 1 || port > 65535)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("port {} of the store is not 1 to 65535", port));
  std::unique_ptr<StoreServer> server;
  if (is_server) {
    Result<std::unique_ptr<StoreServer>> made = StoreServer::create(host, port);
    if (!made.is_ok()) return made.status();
    server = std::move(made).value();
  }
  auto store = std::make_shared<TcpStore>(host, static_cast<uint16_t>(port), std::move(server));
  const SystemClock clock;
  MCCL_RETURN_IF_ERROR(
      store->connect_until(deadline_after(clock.now(), std::max<int64_t>(timeout_ns, 0))));
  return std::shared_ptr<Store>(std::move(store));
}

}  // namespace mccl
