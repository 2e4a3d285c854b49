// The asking half of the rendezvous, and the store that both halves make.
//
// A call takes a connection that is idle or makes one, sends its request, waits for the answer and
// gives the connection back; so calls of several threads do not wait for each other. A connection
// on which anything went wrong is closed, and the next call makes a new one. The server may have
// ended an idle connection for want of places: then the call makes a new one itself. To ask twice
// does no harm.
//
// Every wait ends with the caller's limit: resolving a name, which the system may do for minutes,
// has a thread of its own that is left behind, and an address that does not answer leaves time for
// the next one.
//
// The process that serves asks itself over the same sockets: one path for every rank.
#include "comm/tcp_store.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "comm/store_message.h"
#include "mccl/rendezvous.h"
#include "transport/poller.h"

namespace mccl {
namespace {

// Between two looks at whether the caller was interrupted.
constexpr TimeNs kInterruptNs = 100 * kNsPerMs;
// Between two attempts to connect: the pause doubles from the first to the second.
constexpr TimeNs kPauseMinNs = 10 * kNsPerMs;
constexpr TimeNs kPauseMaxNs = 500 * kNsPerMs;

using Addresses = Result<std::vector<SocketAddress>>;

// What ends a wait. The caller's function outlives the call.
struct Limit {
  TimeNs deadline = kNever;
  const std::function<bool()>& interrupted;  // may be empty

  bool is_interrupted() const { return interrupted && interrupted(); }
  // The end of a wait that begins `now`: then it is time to look again.
  TimeNs look_at(TimeNs now) const {
    return interrupted ? std::min(deadline, deadline_after(now, kInterruptNs)) : deadline;
  }
};

Status interruption() {
  return Status(StatusCode::Aborted, "the call to the store was interrupted");
}

class TcpStore final : public Store {
 public:
  TcpStore(std::string host, uint16_t port, std::unique_ptr<StoreServer> server,
           TcpStoreOptions options)
      : host_(std::move(host)),
        port_(port),
        options_(std::move(options)),
        server_(std::move(server)) {}

  // Connects, again and again while nobody serves.
  Status connect_until(const Limit& limit);

  Status set(const std::string& key, const std::string& value) override {
    return set_within({}, key, value);
  }
  Result<std::optional<std::string>> get(const std::string& key, int64_t timeout_ns) override {
    return get_within({}, key, timeout_ns);
  }
  Status set_within(const StoreBound& bound, const std::string& key,
                    const std::string& value) override;
  Result<std::optional<std::string>> get_within(const StoreBound& bound, const std::string& key,
                                                int64_t timeout_ns) override;

 private:
  struct Answer {
    StoreOutcome outcome;
    std::string value;
  };

  // Blocks until the socket is ready for `events` (POLLIN, POLLOUT). Network, in the words of
  // `missed`: the deadline passed.
  Status wait_for(int socket, short events, const Limit& limit, const char* missed) const;
  Addresses find_addresses(const Limit& limit) const;
  Result<FileDescriptor> connect_once(const Limit& limit) const;
  Result<FileDescriptor> connect_to(const SocketAddress& address, const Limit& limit) const;
  Result<Answer> exchange(const StoreBound& bound, const StoreRequestHeader& header,
                          const std::string& body);
  Result<Answer> exchange_on(int socket, const std::string& request, const Limit& limit) const;
  Status send_all(int socket, const std::string& bytes, const Limit& limit) const;
  Status recv_all(int socket, char* data, size_t count, const Limit& limit) const;
  Status failure(const std::string& reason) const;

  const std::string host_;
  const uint16_t port_;
  const TcpStoreOptions options_;
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

Status TcpStore::wait_for(int socket, short events, const Limit& limit, const char* missed) const {
  for (;;) {
    const TimeNs now = clock_.now();
    const TimeNs look_at = limit.look_at(now);
    pollfd descriptor{socket, events, 0};
    const TimeNs left = look_at == kNever ? -1 : std::max<TimeNs>(look_at - now, 0);
    if (::poll(&descriptor, 1, round_up_to_ms(left)) > 0) return Status::ok();
    if (limit.is_interrupted()) return interruption();
    if (clock_.now() >= limit.deadline) return failure(missed);
  }
}

Addresses TcpStore::find_addresses(const Limit& limit) const {
  const Result<SocketAddress> numeric = parse_host(host_, port_);
  if (numeric.is_ok()) return std::vector<SocketAddress>{numeric.value()};
  struct Search {
    std::mutex mutex;
    std::condition_variable has_ended;
    std::optional<Addresses> found;  // under mutex
  };
  // Shared with the thread, which ends when the system's resolver does.
  const auto search = std::make_shared<Search>();
  try {
    std::thread([search, resolve = options_.resolve, host = host_, port = port_] {
      Addresses found = resolve(host, port);
      const std::lock_guard lock(search->mutex);
      search->found.emplace(std::move(found));
      search->has_ended.notify_one();
    }).detach();
  } catch (const std::system_error& error) {
    return failure(error.what());
  }
  std::unique_lock lock(search->mutex);
  for (;;) {
    const TimeNs now = clock_.now();
    const auto left =
        std::chrono::nanoseconds(std::clamp<TimeNs>(limit.look_at(now) - now, 0, kNsPerSecond));
    if (search->has_ended.wait_for(lock, left, [&] { return search->found.has_value(); }))
      return *std::move(search->found);
    if (limit.is_interrupted()) return interruption();
    if (clock_.now() >= limit.deadline) return failure("its name was not resolved in time");
  }
}

Result<FileDescriptor> TcpStore::connect_to(const SocketAddress& address,
                                            const Limit& limit) const {
  FileDescriptor socket = make_stream_socket(address.family());
  if (!socket.is_open()) return failure(error_text(errno));
  set_stream_options(socket.number(), 0);
  if (::connect(socket.number(), address.raw(), address.length_bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return failure(error_text(errno));
    MCCL_RETURN_IF_ERROR(wait_for(socket.number(), POLLOUT, limit, "no answer"));
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

Result<FileDescriptor> TcpStore::connect_once(const Limit& limit) const {
  const Addresses addresses = find_addresses(limit);
  if (!addresses.is_ok()) return addresses.status();
  Status last = failure("its name has no address");
  for (TimeNs share_ns = options_.address_ns;; share_ns = deadline_after(share_ns, share_ns)) {
    bool is_silent = false;
    for (const SocketAddress& address : addresses.value()) {
      const Limit share{std::min(limit.deadline, deadline_after(clock_.now(), share_ns)),
                        limit.interrupted};
      Result<FileDescriptor> socket = connect_to(address, share);
      if (socket.is_ok() || socket.status().code() == StatusCode::Aborted) return socket;
      last = socket.status();
      is_silent |= clock_.now() >= share.deadline;
    }
    if (!is_silent || clock_.now() >= limit.deadline) return last;
  }
}

Status TcpStore::connect_until(const Limit& limit) {
  for (TimeNs pause = kPauseMinNs;; pause = std::min(2 * pause, kPauseMaxNs)) {
    Result<FileDescriptor> socket = connect_once(limit);
    if (socket.is_ok()) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(std::move(socket).value());
      return Status::ok();
    }
    if (socket.status().code() == StatusCode::Aborted) return socket.status();
    if (clock_.now() >= limit.deadline)
      return Status(StatusCode::Timeout, fmt::format("nobody has served the store in time: {}",
                                                     socket.status().message()));
    // poll() with nothing to watch, so that a pause has the same bound and clock as every wait.
    const Limit share{std::min(limit.deadline, deadline_after(clock_.now(), pause)),
                      limit.interrupted};
    const Status paused = wait_for(-1, 0, share, "no answer");
    if (paused.code() == StatusCode::Aborted) return paused;
  }
}

Status TcpStore::send_all(int socket, const std::string& bytes, const Limit& limit) const {
  for (size_t sent_bytes = 0; sent_bytes < bytes.size();) {
    const ssize_t count =
        ::send(socket, bytes.data() + sent_bytes, bytes.size() - sent_bytes, kNoSignalFlag);
    if (count >= 0) {
      sent_bytes += static_cast<size_t>(count);
    } else if (is_would_block(errno)) {
      MCCL_RETURN_IF_ERROR(wait_for(socket, POLLOUT, limit, "it takes no request"));
    } else if (errno != EINTR) {
      return failure(error_text(errno));
    }
  }
  return Status::ok();
}

Status TcpStore::recv_all(int socket, char* data, size_t count, const Limit& limit) const {
  for (size_t received_bytes = 0; received_bytes < count;) {
    const ssize_t arrived = ::recv(socket, data + received_bytes, count - received_bytes, 0);
    if (arrived > 0) {
      received_bytes += static_cast<size_t>(arrived);
    } else if (arrived == 0) {
      return failure("it closed the connection");
    } else if (is_would_block(errno)) {
      MCCL_RETURN_IF_ERROR(wait_for(socket, POLLIN, limit, "no answer"));
    } else if (errno != EINTR) {
      return failure(error_text(errno));
    }
  }
  return Status::ok();
}

Result<TcpStore::Answer> TcpStore::exchange_on(int socket, const std::string& request,
                                               const Limit& limit) const {
  MCCL_RETURN_IF_ERROR(send_all(socket, request, limit));
  StoreAnswerHeader header;
  MCCL_RETURN_IF_ERROR(recv_all(socket, reinterpret_cast<char*>(&header), sizeof header, limit));
  if (header.magic != StoreAnswerHeader::kMagic || header.value_bytes > kStoreValueBytesMax)
    return failure("what answers there is no store of mccl");
  Answer answer{header.outcome, std::string(header.value_bytes, '\0')};
  MCCL_RETURN_IF_ERROR(recv_all(socket, answer.value.data(), answer.value.size(), limit));
  return answer;
}

// After an exchange that failed: it was not for want of time.
bool is_closed_by_peer(int socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket, &byte, 1, MSG_PEEK);
  return count == 0 || (count < 0 && !is_would_block(errno));
}

Result<TcpStore::Answer> TcpStore::exchange(const StoreBound& bound,
                                            const StoreRequestHeader& header,
                                            const std::string& body) {
  const TimeNs allowed_ns = deadline_after(header.timeout_ns, std::max<TimeNs>(bound.answer_ns, 0));
  const Limit limit{deadline_after(clock_.now(), allowed_ns), bound.interrupted};
  FileDescriptor socket;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      socket = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  const auto connect = [&] {
    Result<FileDescriptor> made = connect_once(limit);
    if (made.is_ok()) socket = std::move(made).value();
    return made.is_ok() ? Status::ok() : made.status();
  };
  const bool was_idle = socket.is_open();
  if (!was_idle) MCCL_RETURN_IF_ERROR(connect());
  const std::string request =
      std::string(reinterpret_cast<const char*>(&header), sizeof header) + body;
  Result<Answer> answer = exchange_on(socket.number(), request, limit);
  if (!answer.is_ok() && was_idle && is_closed_by_peer(socket.number())) {
    MCCL_RETURN_IF_ERROR(connect());
    answer = exchange_on(socket.number(), request, limit);
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

Status TcpStore::set_within(const StoreBound& bound, const std::string& key,
                            const std::string& value) {
  MCCL_RETURN_IF_ERROR(check_lengths(key, value.size()));
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Set;
  header.key_bytes = static_cast<uint16_t>(key.size());
  header.value_bytes = static_cast<uint32_t>(value.size());
  return exchange(bound, header, key + value).status();
}

Result<std::optional<std::string>> TcpStore::get_within(const StoreBound& bound,
                                                        const std::string& key,
                                                        int64_t timeout_ns) {
  MCCL_RETURN_IF_ERROR(check_lengths(key, 0));
  StoreRequestHeader header;
  header.kind = StoreRequestKind::Get;
  header.key_bytes = static_cast<uint16_t>(key.size());
  header.timeout_ns = std::max<int64_t>(timeout_ns, 0);
  Result<Answer> answer = exchange(bound, header, key);
  if (!answer.is_ok()) return answer.status();
  if (answer.value().outcome == StoreOutcome::Nothing) return std::optional<std::string>();
  return std::optional<std::string>(std::move(answer.value().value));
}

Result<std::shared_ptr<Store>> make_store(const std::string& host, int port,
                                          std::unique_ptr<StoreServer> server, int64_t timeout_ns,
                                          const std::function<bool()>& interrupted,
                                          TcpStoreOptions options) {
  auto store = std::make_shared<TcpStore>(host, static_cast<uint16_t>(port), std::move(server),
                                          std::move(options));
  const SystemClock clock;
  const TimeNs deadline = deadline_after(clock.now(), std::max<int64_t>(timeout_ns, 0));
  MCCL_RETURN_IF_ERROR(store->connect_until({deadline, interrupted}));
  return std::shared_ptr<Store>(std::move(store));
}

Status check_port(int port) {
  if (port >= 1 && port <= 65535) return Status::ok();
  return Status(StatusCode::InvalidArgument,
                fmt::format("port {} of the store is not 1 to 65535", port));
}

}  // namespace

Result<std::shared_ptr<Store>> connect_tcp_store(const std::string& host, int port,
                                                 int64_t timeout_ns,
                                                 const std::function<bool()>& interrupted,
                                                 TcpStoreOptions options) {
  MCCL_RETURN_IF_ERROR(check_port(port));
  return make_store(host, port, nullptr, timeout_ns, interrupted, std::move(options));
}

Result<std::shared_ptr<Store>> make_tcp_store(const std::string& host, int port, bool is_server,
                                              int64_t timeout_ns,
                                              const std::function<bool()>& interrupted) {
  MCCL_RETURN_IF_ERROR(check_port(port));
  std::unique_ptr<StoreServer> server;
  if (is_server) {
    Result<std::unique_ptr<StoreServer>> made = StoreServer::create(host, port);
    if (!made.is_ok()) return made.status();
    server = std::move(made).value();
  }
  return make_store(host, port, std::move(server), timeout_ns, interrupted, {});
}

}  // namespace mccl
