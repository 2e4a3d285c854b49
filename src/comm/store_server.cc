// The serving half of the rendezvous. One thread waits for sockets and for the nearest deadline of
// a parked request.
//
// Per connection there is one request under way, which walks through four states: reading it,
// parked (a get whose key is not set yet), writing the answer, closed. A client that sends more
// before it has its answer is cut off. Nothing that a client says is trusted: lengths are checked
// when the header is there, and what they announce is counted against the whole store's limit
// before memory grows with the bytes that really arrive.
//
// A connection is destroyed between two rounds only: the events of one round may name it still.
// test/unit/comm/tcp_store_test.cc talks to it, also in bad faith.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/store_address.h"
#include "comm/store_message.h"
#include "mccl/rendezvous.h"
#include "transport/poller.h"
#include "transport/socket.h"

namespace mccl {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kConnectionsMax = 4096;
constexpr size_t kStoredBytesMax = size_t{1} << 30;
constexpr size_t kReadBytes = size_t{64} << 10;
// When the process is out of descriptors, nothing tells that there is one again.
constexpr TimeNs kAcceptAgainNs = 100 * kNsPerMs;

using Value =
    std::shared_ptr<const std::string>;  // shared by the map and the answers being written

enum class ConnectionState : uint8_t { Reading, Parked, Writing, Closed };

struct Connection {
  FileDescriptor socket;
  ConnectionState state = ConnectionState::Reading;
  std::string input;
  size_t reserved_bytes = 0;  // announced by the request under way
  std::string parked_key;
  TimeNs deadline = kNever;
  StoreAnswerHeader answer;
  Value value;
  size_t written_bytes = 0;
};

// The request at the front of `input`, or nothing while its header is not complete.
std::optional<StoreRequestHeader> header_of(const std::string& input) {
  StoreRequestHeader header;
  if (input.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, input.data(), sizeof header);
  return header;
}

bool is_legal(const StoreRequestHeader& header) {
  return header.magic == StoreRequestHeader::kMagic && header.key_bytes <= kStoreKeyBytesMax &&
         header.value_bytes <= kStoreValueBytesMax &&
         (header.kind == StoreRequestKind::Set ||
          (header.kind == StoreRequestKind::Get && header.value_bytes == 0));
}

size_t body_bytes(const StoreRequestHeader& header) {
  return size_t{header.key_bytes} + header.value_bytes;
}

class Server final : public StoreServer {
 public:
  Server(FileDescriptor listener, std::unique_ptr<Poller> poller)
      : listener_(std::move(listener)), poller_(std::move(poller)) {}
  ~Server() override {
    is_stopping_ = true;
    poller_->wake();
    if (thread_.joinable()) thread_.join();
  }

  Status start() {
    MCCL_RETURN_IF_ERROR(poller_->add(listener_.number(), this));
    thread_ = std::thread([this] { serve(); });
    return Status::ok();
  }

  int port() const override { return local_address(listener_.number()).port(); }

 private:
  void serve();
  void accept_all();
  int64_t time_to_next_event(TimeNs now) const;
  void expire(TimeNs now);
  void remove_closed();

  void advance(Connection& connection);
  void read(Connection& connection);
  void handle(Connection& connection, const StoreRequestHeader& header);
  void set(const std::string& key, std::string value);
  void answer(Connection& connection, StoreOutcome outcome, Value value);
  void write(Connection& connection);
  void release(Connection& connection);
  void close(Connection& connection);

  FileDescriptor listener_;
  std::unique_ptr<Poller> poller_;
  std::atomic<bool> is_stopping_ = false;
  SystemClock clock_;
  std::map<const void*, std::unique_ptr<Connection>> connections_;
  std::map<std::string, Value> values_;
  std::map<std::string, std::set<Connection*>> parked_;  // by key
  size_t held_bytes_ = 0;                                // of values_ and of the requests under way
  std::array<char, kReadBytes> arrived_;
  bool has_closed_ = false;
  bool is_out_of_descriptors_ = false;
  std::thread thread_;
};

void Server::serve() {
  std::vector<Poller::Ready> ready;
  while (!is_stopping_) {
    ready.clear();
    poller_->wait(time_to_next_event(clock_.now()), ready);
    for (const Poller::Ready& event : ready) {
      const auto found = connections_.find(event.owner);
      if (found != connections_.end()) advance(*found->second);
    }
    accept_all();
    expire(clock_.now());
    remove_closed();
  }
}

void Server::accept_all() {
  is_out_of_descriptors_ = false;
  for (;;) {
    auto connection = std::make_unique<Connection>();
    connection->socket = accept_stream_socket(listener_.number());
    if (!connection->socket.is_open()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      is_out_of_descriptors_ = !is_would_block(errno);
      return;
    }
    if (connections_.size() >= kConnectionsMax) continue;  // closes it
    set_stream_options(connection->socket.number(), 0);
    Connection* const owner = connection.get();
    if (!poller_->add(owner->socket.number(), owner).is_ok()) continue;
    connections_.emplace(owner, std::move(connection));
  }
}

int64_t Server::time_to_next_event(TimeNs now) const {
  TimeNs next = is_out_of_descriptors_ ? now + kAcceptAgainNs : kNever;
  for (const auto& [key, parked] : parked_)
    for (const Connection* connection : parked) next = std::min(next, connection->deadline);
  return next == kNever ? -1 : std::max<TimeNs>(next - now, 0);
}

void Server::expire(TimeNs now) {
  std::vector<Connection*> expired;
  for (const auto& [key, parked] : parked_)
    for (Connection* connection : parked)
      if (connection->deadline <= now) expired.push_back(connection);
  for (Connection* connection : expired) answer(*connection, StoreOutcome::Nothing, nullptr);
}

void Server::remove_closed() {
  if (!has_closed_) return;
  std::erase_if(connections_,
                [](const auto& each) { return each.second->state == ConnectionState::Closed; });
  has_closed_ = false;
}

void Server::advance(Connection& connection) {
  if (connection.state == ConnectionState::Writing) write(connection);
  if (connection.state != ConnectionState::Closed) read(connection);
}

void Server::read(Connection& connection) {
  // Edge-triggered: what is not read now is not reported again, so it ends with an empty socket.
  while (connection.state != ConnectionState::Closed) {
    const ssize_t count = ::recv(connection.socket.number(), arrived_.data(), arrived_.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && is_would_block(errno)) return;
    if (count <= 0) return close(connection);
    // One request at a time: more is not from a client of ours.
    if (connection.state != ConnectionState::Reading) return close(connection);

    connection.input.append(arrived_.data(), static_cast<size_t>(count));
    const std::optional<StoreRequestHeader> header = header_of(connection.input);
    if (!header) continue;
    if (!is_legal(*header)) return close(connection);
    if (connection.reserved_bytes == 0) {
      connection.reserved_bytes = body_bytes(*header);
      held_bytes_ += connection.reserved_bytes;
    }
    const size_t wanted_bytes = sizeof *header + body_bytes(*header);
    if (connection.input.size() > wanted_bytes) return close(connection);
    if (held_bytes_ > kStoredBytesMax) return close(connection);
    if (connection.input.size() == wanted_bytes) handle(connection, *header);
  }
}

void Server::handle(Connection& connection, const StoreRequestHeader& header) {
  const std::string input = std::move(connection.input);
  connection.input.clear();
  release(connection);
  std::string key = input.substr(sizeof header, header.key_bytes);
  if (header.kind == StoreRequestKind::Set) {
    set(key, input.substr(sizeof header + header.key_bytes));
    return answer(connection, StoreOutcome::Done, nullptr);
  }
  const auto found = values_.find(key);
  if (found != values_.end()) return answer(connection, StoreOutcome::Done, found->second);
  if (header.timeout_ns <= 0) return answer(connection, StoreOutcome::Nothing, nullptr);

  const TimeNs now = clock_.now();
  connection.deadline = header.timeout_ns < kNever - now ? now + header.timeout_ns : kNever;
  connection.state = ConnectionState::Parked;
  parked_[key].insert(&connection);
  connection.parked_key = std::move(key);
}

void Server::set(const std::string& key, std::string value) {
  Value& place = values_[key];
  if (place) held_bytes_ -= key.size() + place->size();
  place = std::make_shared<const std::string>(std::move(value));
  held_bytes_ += key.size() + place->size();

  const auto found = parked_.find(key);
  if (found == parked_.end()) return;
  const std::set<Connection*> waiting = found->second;  // a copy: answering unparks
  for (Connection* connection : waiting) answer(*connection, StoreOutcome::Done, place);
}

void Server::answer(Connection& connection, StoreOutcome outcome, Value value) {
  release(connection);
  connection.answer = StoreAnswerHeader{};
  connection.answer.outcome = outcome;
  connection.answer.value_bytes = value ? static_cast<uint32_t>(value->size()) : 0;
  connection.value = std::move(value);
  connection.written_bytes = 0;
  connection.state = ConnectionState::Writing;
  write(connection);
}

void Server::write(Connection& connection) {
  constexpr size_t kHeaderBytes = sizeof connection.answer;
  const size_t all_bytes = kHeaderBytes + connection.answer.value_bytes;
  while (connection.written_bytes < all_bytes) {
    const size_t done_bytes = connection.written_bytes;
    const bool is_header = done_bytes < kHeaderBytes;
    const char* const data = is_header
                                 ? reinterpret_cast<const char*>(&connection.answer) + done_bytes
                                 : connection.value->data() + (done_bytes - kHeaderBytes);
    const size_t count = is_header ? kHeaderBytes - done_bytes : all_bytes - done_bytes;
    const ssize_t sent = ::send(connection.socket.number(), data, count, kNoSignalFlag);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && is_would_block(errno)) return;
    if (sent < 0) return close(connection);
    connection.written_bytes += static_cast<size_t>(sent);
  }
  connection.value.reset();
  connection.state = ConnectionState::Reading;
}

// Takes back what the request under way has claimed: its bytes and its place among the parked.
void Server::release(Connection& connection) {
  held_bytes_ -= connection.reserved_bytes;
  connection.reserved_bytes = 0;
  if (connection.state != ConnectionState::Parked) return;
  const auto found = parked_.find(connection.parked_key);
  found->second.erase(&connection);
  if (found->second.empty()) parked_.erase(found);
}

void Server::close(Connection& connection) {
  release(connection);
  poller_->remove(connection.socket.number());
  connection.socket.close();
  connection.state = ConnectionState::Closed;
  has_closed_ = true;
}

Result<FileDescriptor> listen_on(const std::string& host, int port) {
  Result<std::vector<SocketAddress>> addresses = resolve_host(host, static_cast<uint16_t>(port));
  if (!addresses.is_ok()) return addresses.status();
  int error_number = EADDRNOTAVAIL;
  for (const SocketAddress& address : addresses.value()) {
    FileDescriptor listener = make_stream_socket(address.family());
    if (listener.is_open()) {
      const int on = 1;
      ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (address.family() == AF_INET6)
        ::setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
      if (::bind(listener.number(), address.raw(), address.length_bytes) == 0 &&
          ::listen(listener.number(), kBacklog) == 0)
        return listener;
    }
    error_number = errno;
  }
  return Status(StatusCode::Network,
                fmt::format("cannot serve the store on {} port {}: {}; the host must be this "
                            "machine and the port free",
                            host, port, error_text(error_number)));
}

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::create(const std::string& host, int port) {
  if (port < 0 || port > 65535)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("port {} of the store is not 0 to 65535", port));
  Result<FileDescriptor> listener = listen_on(host, port);
  if (!listener.is_ok()) return listener.status();
  Result<std::unique_ptr<Poller>> poller = Poller::make();
  if (!poller.is_ok()) return poller.status();
  auto server = std::make_unique<Server>(std::move(listener).value(), std::move(poller).value());
  MCCL_RETURN_IF_ERROR(server->start());
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace mccl
