#include "doctor/switchboard.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "transport/poller.h"
#include "transport/port_holder.h"

namespace mccl {
namespace {

constexpr int kBacklog = 256;
// Of every other host one that leads, one that is led and one that measures; and strangers.
constexpr size_t kConnectionsMax = 3 * kHostsMax + 64;
// A peer that measures ends by itself; this is for one that vanished.
constexpr TimeNs kServeNsMax = 60 * kNsPerSecond;

PairResult broken(const std::string& words) {
  return {.outcome = Outcome::Broken, .words = words};
}

Status listen_failure(int error_number, const SocketAddress& address) {
  std::string advice;
  if (error_number == EADDRINUSE)
    advice = fmt::format(" ({}); --port chooses another one, the same on all hosts",
                         describe_port_holder(address));
  if (error_number == EADDRNOTAVAIL)
    advice = ": the address is not one of this host's; --self or --hosts is wrong";
  return Status(StatusCode::Network,
                fmt::format("cannot listen at tcp://{}: {}{}", to_string(address),
                            error_text(error_number), advice));
}

}  // namespace

Result<std::unique_ptr<Switchboard>> Switchboard::listen(const SocketAddress& address,
                                                         const MeasureLimits& limits,
                                                         const Clock& clock) {
  FileDescriptor listener = make_stream_socket(address.family());
  if (!listener.is_open()) return listen_failure(errno, address);
  const int on = 1;
  ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6)
    ::setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  set_stream_options(listener.number(), 0);
  if (::bind(listener.number(), address.raw(), address.length_bytes) != 0 ||
      ::listen(listener.number(), kBacklog) != 0)
    return listen_failure(errno, address);
  return std::unique_ptr<Switchboard>(new Switchboard(std::move(listener), limits, clock));
}

Switchboard::Id Switchboard::dial(const SocketAddress& peer) {
  const TimeNs now = clock_.now();
  int error_number = 0;
  Connection& made = connections_.emplace_back();
  made.id = ++last_id_;
  made.peer = peer;
  made.since = now;
  made.deadline = deadline_after(now, limits_.answer_ns);
  made.is_connecting = true;
  made.socket = start_connecting(peer, &error_number);
  if (error_number != 0 && error_number != EINPROGRESS)
    end(made, connect_result(error_number, made.socket.number(), peer, 0), events_);
  return made.id;
}

Switchboard::Connection* Switchboard::find(Id id) {
  const auto found =
      std::find_if(connections_.begin(), connections_.end(),
                   [&](const Connection& one) { return one.id == id && one.socket.is_open(); });
  return found == connections_.end() ? nullptr : &*found;
}

void Switchboard::send(Id id, const DoctorMessage& message) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;
  // A few lines a second, at most: a kernel without room for one has a peer that does not read.
  const std::string line = write_message(message);
  if (send_now(connection->socket.number(), line) != static_cast<int64_t>(line.size()))
    end(*connection, broken("the connection ended: the peer does not read"), events_);
}

void Switchboard::keep(Id id) {
  if (Connection* const connection = find(id)) connection->deadline = kNever;
}

void Switchboard::serve(Id id) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;
  connection->is_serving = true;
  connection->deadline = deadline_after(clock_.now(), kServeNsMax);
}

void Switchboard::close(Id id) {
  if (Connection* const connection = find(id)) connection->socket.close();
}

std::vector<Switchboard::Event> Switchboard::wait(TimeNs deadline) {
  while (true) {
    connections_.remove_if([](const Connection& one) { return !one.socket.is_open(); });
    if (!events_.empty()) return std::exchange(events_, {});
    const TimeNs now = clock_.now();
    if (now >= deadline) return {};
    TimeNs next = deadline;
    std::vector<pollfd> watched = {{listener_.number(), POLLIN, 0}};
    std::vector<Connection*> order;
    for (Connection& one : connections_) {
      next = std::min(next, one.deadline);
      const short events = one.is_connecting ? POLLOUT : POLLIN;
      watched.push_back({one.socket.number(), events, 0});
      order.push_back(&one);
    }
    ::poll(watched.data(), static_cast<nfds_t>(watched.size()),
           round_up_to_ms(std::max<TimeNs>(next - now, 0)));
    for (size_t index = 0; index < order.size(); ++index)
      if (watched[index + 1].revents != 0) on_ready(*order[index], events_);
    if (watched[0].revents != 0) accept_all();
    end_late(clock_.now(), events_);
  }
}

void Switchboard::accept_all() {
  while (true) {
    FileDescriptor socket = accept_stream_socket(listener_.number());
    if (!socket.is_open()) return;
    if (connections_.size() >= kConnectionsMax) continue;  // closed at once
    set_stream_options(socket.number(), 0);
    Connection& made = connections_.emplace_back();
    made.id = ++last_id_;
    made.peer = peer_address(socket.number());
    made.since = clock_.now();
    made.deadline = deadline_after(made.since, limits_.answer_ns);
    made.socket = std::move(socket);
  }
}

void Switchboard::end(Connection& connection, const PairResult& failure,
                      std::vector<Event>& events) {
  connection.socket.close();
  if (!connection.is_serving)
    events.push_back(
        {.kind = Event::Kind::Ended, .id = connection.id, .message = {}, .failure = failure});
}

void Switchboard::on_ready(Connection& connection, std::vector<Event>& events) {
  if (!connection.socket.is_open()) return;
  if (connection.is_connecting)
    finish_dial(connection, events);
  else
    read(connection, events);
}

void Switchboard::finish_dial(Connection& connection, std::vector<Event>& events) {
  const int error_number = finish_connecting(connection.socket.number());
  if (error_number != 0)
    return end(connection,
               connect_result(error_number, connection.socket.number(), connection.peer,
                              clock_.now() - connection.since),
               events);
  connection.is_connecting = false;
  connection.deadline = deadline_after(clock_.now(), limits_.answer_ns);
  events.push_back(
      {.kind = Event::Kind::Connected, .id = connection.id, .message = {}, .failure = {}});
}

void Switchboard::read(Connection& connection, std::vector<Event>& events) {
  const int64_t got = receive_now(connection.socket.number(), buffer_);
  if (got < 0 && is_for_later(-got)) return;
  if (got <= 0) {
    if (got == 0 && connection.is_serving)
      (void)connection.responder.end(connection.socket.number());
    return end(connection,
               broken(got == 0 ? "connected, then closed by what listens there"
                               : "the connection ended: " + error_text(static_cast<int>(-got))),
               events);
  }
  const std::span<const char> bytes(buffer_.data(), static_cast<size_t>(got));
  if (!connection.is_serving) {
    connection.input.append(bytes.begin(), bytes.end());
    cut_lines(connection, events);
  } else if (!connection.responder.take(connection.socket.number(), bytes)) {
    end(connection, {}, events);
  }
}

// One line an event. Whoever measures hears Ready before it sends what is not a line.
void Switchboard::cut_lines(Connection& connection, std::vector<Event>& events) {
  size_t start = 0;
  for (size_t stop = 0; (stop = connection.input.find('\n', start)) != std::string::npos;) {
    std::optional<DoctorMessage> message =
        parse_message(std::string_view(connection.input).substr(start, stop - start));
    if (!message)
      return end(connection, broken("what listens there is not a doctor of this version"), events);
    events.push_back({.kind = Event::Kind::Message,
                      .id = connection.id,
                      .message = *std::move(message),
                      .failure = {}});
    start = stop + 1;
  }
  connection.input.erase(0, start);
  if (connection.input.size() > kLineBytesMax)
    end(connection, broken("what listens there is not a doctor: its line has no end"), events);
}

void Switchboard::end_late(TimeNs now, std::vector<Event>& events) {
  for (Connection& one : connections_) {
    if (!one.socket.is_open() || now < one.deadline) continue;
    end(one,
        one.is_connecting
            ? connect_result(ETIMEDOUT, one.socket.number(), one.peer, now - one.since)
            : broken("connected, but no answer came: what listens there is stopped, "
                     "or not a doctor"),
        events);
  }
}

}  // namespace mccl
