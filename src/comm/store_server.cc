// The serving half of the rendezvous. One thread waits for sockets and for the nearest deadline of
// a parked request.
//
// Per connection there is one request under way, which walks through four states: reading it,
// parked (a get whose key is not set yet), writing the answer, closed. A client that sends more
// before it has its answer is cut off. Nothing that a client says is trusted: lengths are checked
// when the header is there, a request that would not fit beside what is stored is refused by its
// header, and the bytes that have arrived of unfinished requests are counted: when they are too
// many, the one that has most of them goes. A request has a time to arrive in, an answer a time to
// be taken in; an idle connection may stay until its place is needed, and the longest idle one goes
// first (our clients connect again). Keep-alive ends what a vanished host has left.
//
// A connection is destroyed between two rounds only: the events of one round may name it still.
// test/unit/comm/tcp_store_test.cc talks to it, also in bad faith.
#include "comm/store_server.h"

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
#include <utility>
#include <vector>

#include "base/clock.h"
#include "comm/store_address.h"
#include "comm/store_message.h"
#include "transport/peer_silence.h"
#include "transport/poller.h"
#include "transport/socket.h"

namespace mccl {
namespace {

constexpr int kBacklog = 1024;
constexpr size_t kReadBytes = size_t{64} << 10;
// When the process is out of descriptors, nothing tells that there is one again.
constexpr TimeNs kAcceptAgainNs = 100 * kNsPerMs;
// A host that answers no probe for so long has vanished.
constexpr TimeNs kPeerTimeoutNs = 60 * kNsPerSecond;

using Value =
    std::shared_ptr<const std::string>;  // shared by the map and the answers being written

enum class ConnectionState : uint8_t { Reading, Parked, Writing, Closed };

struct Connection {
  FileDescriptor socket;
  ConnectionState state = ConnectionState::Reading;
  std::string input;         // of a request that is not complete
  uint64_t last_answer = 0;  // counts all connections' answers; the smallest is idle for longest
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
  Server(FileDescriptor listener, std::unique_ptr<Poller> poller, const Clock& clock,
         const StoreServerLimits& limits)
      : listener_(std::move(listener)),
        poller_(std::move(poller)),
        clock_(clock),
        limits_(limits) {}
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
  bool make_room();
  int64_t time_to_next_event(TimeNs now) const;
  void expire(TimeNs now);
  void remove_closed();

  void advance(Connection& connection);
  void read(Connection& connection);
  bool take(Connection& connection, size_t count);
  void handle(Connection& connection, const StoreRequestHeader& header);
  void set(const std::string& key, std::string value);
  void answer(Connection& connection, StoreOutcome outcome, Value value);
  void write(Connection& connection);
  void set_deadline(Connection& connection, TimeNs deadline);
  void release(Connection& connection);
  void close(Connection& connection);

  FileDescriptor listener_;
  std::unique_ptr<Poller> poller_;
  std::atomic<bool> is_stopping_ = false;
  const Clock& clock_;
  const StoreServerLimits limits_;
  std::map<const void*, std::unique_ptr<Connection>> connections_;
  std::map<std::string, Value> values_;
  std::map<std::string, std::set<Connection*>> parked_;  // by key
  std::set<std::pair<TimeNs, Connection*>> deadlines_;   // but for kNever
  size_t stored_bytes_ = 0;                              // of values_ and their keys
  size_t arrived_bytes_ = 0;                             // of all connections' input
  uint64_t answer_count_ = 0;
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
    remove_closed();  // the round's events are done with; whoever waits may have their places
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
    if (connections_.size() >= limits_.connections_max && !make_room()) continue;  // closes it
    set_stream_options(connection->socket.number(), 0);
    set_silence_timers(connection->socket.number(), silence_timers(kPeerTimeoutNs));
    Connection* const owner = connection.get();
    owner->last_answer = ++answer_count_;  // it has just begun to be idle
    if (!poller_->add(owner->socket.number(), owner).is_ok()) continue;
    connections_.emplace(owner, std::move(connection));
  }
}

// Ends the connection that has been idle for longest; false when none is idle.
bool Server::make_room() {
  Connection* idle = nullptr;
  for (const auto& [owner, connection] : connections_)
    if (connection->state == ConnectionState::Reading && connection->input.empty() &&
        (idle == nullptr || connection->last_answer < idle->last_answer))
      idle = connection.get();
  if (idle == nullptr) return false;
  close(*idle);
  remove_closed();
  return true;
}

int64_t Server::time_to_next_event(TimeNs now) const {
  TimeNs next = is_out_of_descriptors_ ? now + kAcceptAgainNs : kNever;
  if (!deadlines_.empty()) next = std::min(next, deadlines_.begin()->first);
  return next == kNever ? -1 : std::max<TimeNs>(next - now, 0);
}

void Server::expire(TimeNs now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Connection& connection = *deadlines_.begin()->second;
    if (connection.state == ConnectionState::Parked)
      answer(connection, StoreOutcome::Nothing, nullptr);
    else
      close(connection);
  }
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

    if (!take(connection, static_cast<size_t>(count))) return;
    const std::optional<StoreRequestHeader> header = header_of(connection.input);
    if (!header) continue;
    if (!is_legal(*header)) return close(connection);
    if (header->kind == StoreRequestKind::Set &&
        stored_bytes_ + body_bytes(*header) > limits_.stored_bytes_max)
      return close(connection);
    const size_t wanted_bytes = sizeof *header + body_bytes(*header);
    if (connection.input.size() > wanted_bytes) return close(connection);
    if (connection.input.size() == wanted_bytes) handle(connection, *header);
  }
}

// Adds what has arrived to the request; false when there was no room and the connection had to go.
bool Server::take(Connection& connection, size_t count) {
  if (connection.input.empty())
    set_deadline(connection, deadline_after(clock_.now(), limits_.request_ns));
  connection.input.append(arrived_.data(), count);
  arrived_bytes_ += count;
  while (arrived_bytes_ > limits_.stored_bytes_max) {
    const auto largest = std::max_element(
        connections_.begin(), connections_.end(), [](const auto& left, const auto& right) {
          return left.second->input.size() < right.second->input.size();
        });
    close(*largest->second);
  }
  return connection.state != ConnectionState::Closed;
}

void Server::handle(Connection& connection, const StoreRequestHeader& header) {
  const std::string input = std::move(connection.input);
  connection.input.clear();
  arrived_bytes_ -= input.size();
  std::string key = input.substr(sizeof header, header.key_bytes);
  if (header.kind == StoreRequestKind::Set) {
    set(key, input.substr(sizeof header + header.key_bytes));
    return answer(connection, StoreOutcome::Done, nullptr);
  }
  const auto found = values_.find(key);
  if (found != values_.end()) return answer(connection, StoreOutcome::Done, found->second);
  if (header.timeout_ns <= 0) return answer(connection, StoreOutcome::Nothing, nullptr);

  const TimeNs now = clock_.now();
  set_deadline(connection, deadline_after(now, header.timeout_ns));
  connection.state = ConnectionState::Parked;
  parked_[key].insert(&connection);
  connection.parked_key = std::move(key);
}

void Server::set(const std::string& key, std::string value) {
  Value& place = values_[key];
  if (place) stored_bytes_ -= key.size() + place->size();
  place = std::make_shared<const std::string>(std::move(value));
  stored_bytes_ += key.size() + place->size();

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
  set_deadline(connection, deadline_after(clock_.now(), limits_.request_ns));
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
  connection.last_answer = ++answer_count_;
  set_deadline(connection, kNever);
}

void Server::set_deadline(Connection& connection, TimeNs deadline) {
  deadlines_.erase({connection.deadline, &connection});
  connection.deadline = deadline;
  if (deadline != kNever) deadlines_.insert({deadline, &connection});
}

// Takes back what the request under way has claimed: its bytes, its deadline and its place among
// the parked.
void Server::release(Connection& connection) {
  arrived_bytes_ -= connection.input.size();
  connection.input.clear();
  set_deadline(connection, kNever);
  if (connection.state != ConnectionState::Parked) return;
  const auto found = parked_.find(connection.parked_key);
  found->second.erase(&connection);
  if (found->second.empty()) parked_.erase(found);
}

void Server::close(Connection& connection) {
  release(connection);
  poller_->remove(connection.socket.number());
  connection.socket.close();
  connection.value.reset();
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

Result<std::unique_ptr<StoreServer>> make_store_server(const std::string& host, int port,
                                                       const Clock& clock,
                                                       const StoreServerLimits& limits) {
  if (port < 0 || port > 65535)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("port {} of the store is not 0 to 65535", port));
  Result<FileDescriptor> listener = listen_on(host, port);
  if (!listener.is_ok()) return listener.status();
  Result<std::unique_ptr<Poller>> poller = Poller::make();
  if (!poller.is_ok()) return poller.status();
  auto server = std::make_unique<Server>(std::move(listener).value(), std::move(poller).value(),
                                         clock, limits);
  MCCL_RETURN_IF_ERROR(server->start());
  return std::unique_ptr<StoreServer>(std::move(server));
}

Result<std::unique_ptr<StoreServer>> StoreServer::create(const std::string& host, int port) {
  static const SystemClock clock;
  return make_store_server(host, port, clock, {});
}

}  // namespace mccl
