// The side that measures is a straight line of blocking steps with deadlines: a host measures one
// peer at a time and has nothing else to do meanwhile. The other side is driven by its loop.
//
// A path that loses packets of full length only (an MTU that differs on the way, with nothing that
// says so) shows as a stream that stops while 8 bytes pass, so the drain of the stream is watched
// for progress before time: what still moves after ten seconds is told apart from what stands.
#include "doctor/measurement.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "transport/interfaces.h"
#include "transport/poller.h"
#include "transport/tcp_wire.h"
#include "transport/tcp_words.h"

namespace mccl {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr int64_t kReceivedBytesMax = int64_t{1} << 40;
constexpr TimeNs kProgressTickNs = 50 * kNsPerMs;  // nothing announces an acknowledgement
constexpr TimeNs kDrainNsMax = 10 * kNsPerSecond;

// False when the deadline came first.
bool wait_ready(int socket, short events, const Clock& clock, TimeNs deadline) {
  while (true) {
    pollfd watched{socket, events, 0};
    const TimeNs left_ns = std::max<TimeNs>(deadline - clock.now(), 0);
    if (::poll(&watched, 1, round_up_to_ms(left_ns)) > 0) return true;
    if (clock.now() >= deadline) return false;
  }
}

// The kernel gives an end its address once there is a way to the peer.
void note_ends(int socket, const SocketAddress& peer, PairResult& result) {
  result.to_address = to_string(peer);
  const SocketAddress local = local_address(socket);
  if (local.length_bytes == 0 || local.port() == 0) return;
  result.from_address = to_string(local);
  const std::string host = host_of(result.from_address);
  if (const auto interfaces = list_interfaces(); interfaces.is_ok())
    for (const InterfaceAddress& one : interfaces.value())
      if (one.address == host) result.interface = one.name;
}

// Of one connection that measures.
class Measurement {
 public:
  Measurement(const MeasureTask& task, const MeasureLimits& limits, const Clock& clock)
      : task_(task), limits_(limits), clock_(clock) {}

  PairResult run();

 private:
  bool connect();
  bool greet();
  bool ping();
  bool stream();
  bool drain(int64_t sent_bytes, TimeNs start);
  void note_path();

  bool send_all(std::span<const char> bytes, TimeNs deadline);
  bool receive_all(std::span<char> bytes, TimeNs deadline);
  std::optional<DoctorMessage> receive_message(TimeNs deadline);

  bool fail(Outcome outcome, const std::string& words) {
    if (!result_.words.empty()) return false;  // the first reason counts
    result_.outcome = outcome;
    result_.words = words;
    return false;
  }
  bool fail_broken(int64_t error_number) {
    return fail(Outcome::Broken,
                "the connection ended: " + (error_number == 0
                                                ? "closed by the peer"
                                                : error_text(static_cast<int>(error_number))));
  }
  TimeNs answer_deadline() const { return deadline_after(clock_.now(), limits_.answer_ns); }

  const MeasureTask& task_;
  const MeasureLimits& limits_;
  const Clock& clock_;
  FileDescriptor socket_;
  PairResult result_;
};

PairResult Measurement::run() {
  if (!connect()) return result_;
  if (greet() && ping() && stream()) result_.outcome = Outcome::Ok;
  note_path();
  return result_;
}

bool Measurement::connect() {
  const TimeNs start = clock_.now();
  int error_number = 0;
  socket_ = start_connecting(task_.peer, &error_number);
  if (error_number == EINPROGRESS)
    error_number = wait_ready(socket_.number(), POLLOUT, clock_, answer_deadline())
                       ? finish_connecting(socket_.number())
                       : ETIMEDOUT;
  if (error_number == 0) return true;
  result_ = connect_result(error_number, socket_.number(), task_.peer, clock_.now() - start);
  return false;
}

bool Measurement::greet() {
  if (!send_all(write_message(task_.greeting), answer_deadline())) return false;
  const std::optional<DoctorMessage> answer = receive_message(answer_deadline());
  if (!answer) return false;
  if (answer->kind == MessageKind::Refuse) return fail(Outcome::Broken, answer->words);
  return answer->kind == MessageKind::Ready ||
         fail(Outcome::Broken, "what listens there is not a doctor that measures");
}

bool Measurement::ping() {
  std::vector<TimeNs> trips;
  std::array<char, kPingBytes> message{};
  for (size_t round = 0; round < kPingCount; ++round) {
    const TimeNs start = clock_.now();
    if (!send_all(message, answer_deadline()) || !receive_all(message, answer_deadline()))
      return false;
    if (round >= kWarmUpCount) trips.push_back(clock_.now() - start);
  }
  const auto middle = trips.begin() + static_cast<std::ptrdiff_t>(trips.size() / 2);
  std::nth_element(trips.begin(), middle, trips.end());
  result_.round_trip_ns = *middle;
  return true;
}

bool Measurement::stream() {
  const std::vector<char> piece(kPieceBytes, 'm');
  const TimeNs start = clock_.now();
  const TimeNs end = deadline_after(start, limits_.stream_ns);
  int64_t sent_bytes = 0;
  while (sent_bytes < limits_.stream_bytes && clock_.now() < end) {
    const int64_t sent = send_now(socket_.number(), piece);
    if (sent > 0)
      sent_bytes += sent;
    else if (!is_for_later(-sent))
      return fail_broken(-sent);
    else
      wait_ready(socket_.number(), POLLOUT, clock_, end);
  }
  ::shutdown(socket_.number(), SHUT_WR);
  return drain(sent_bytes, start);
}

bool Measurement::drain(int64_t sent_bytes, TimeNs start) {
  const TimeNs drain_end = deadline_after(clock_.now(), kDrainNsMax);
  TimeNs progress_end = answer_deadline();
  int unsent = unsent_bytes(socket_.number());
  while (!wait_ready(socket_.number(), POLLIN, clock_, clock_.now() + kProgressTickNs)) {
    const int before = std::exchange(unsent, unsent_bytes(socket_.number()));
    if (unsent < before) progress_end = answer_deadline();
    if (clock_.now() >= progress_end)
      return fail(Outcome::Stalled,
                  "short messages arrive, but a stream of bytes makes no progress");
    if (clock_.now() >= drain_end)
      return fail(Outcome::Stalled,
                  fmt::format("{} bytes of a stream were still on their way 10 s after the last "
                              "was written: the path is very slow, or loses much",
                              unsent));
  }
  const TimeNs stop = clock_.now();
  const std::optional<DoctorMessage> answer = receive_message(answer_deadline());
  if (!answer) return false;
  if (answer->kind != MessageKind::Received || answer->number != sent_bytes)
    return fail(Outcome::Broken, "the peer counted other bytes than were sent");
  result_.bytes_per_second = static_cast<int64_t>(static_cast<double>(sent_bytes) * 1e9 /
                                                  static_cast<double>(stop - start));
  return true;
}

// After the stream: by then the kernel knows what the path carries.
void Measurement::note_path() {
  note_ends(socket_.number(), task_.peer, result_);
#if defined(IP_MTU) && defined(IPV6_MTU)
  const bool is_ipv6 = task_.peer.family() == AF_INET6;
  int mtu_bytes = 0;
  socklen_t length_bytes = sizeof mtu_bytes;
  if (::getsockopt(socket_.number(), is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                   is_ipv6 ? IPV6_MTU : IP_MTU, &mtu_bytes, &length_bytes) == 0)
    result_.packet_bytes_max = mtu_bytes;
#endif
#if defined(__linux__)
  tcp_info info{};
  socklen_t info_bytes = sizeof info;
  if (::getsockopt(socket_.number(), IPPROTO_TCP, TCP_INFO, &info, &info_bytes) == 0)
    result_.segment_bytes_max = info.tcpi_snd_mss;
#else
  int segment_bytes = 0;
  socklen_t segment_length_bytes = sizeof segment_bytes;
  if (::getsockopt(socket_.number(), IPPROTO_TCP, TCP_MAXSEG, &segment_bytes,
                   &segment_length_bytes) == 0)
    result_.segment_bytes_max = segment_bytes;
#endif
}

bool Measurement::send_all(std::span<const char> bytes, TimeNs deadline) {
  while (!bytes.empty()) {
    const int64_t sent = send_now(socket_.number(), bytes);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<size_t>(sent));
    } else if (!is_for_later(-sent)) {
      return fail_broken(-sent);
    } else if (!wait_ready(socket_.number(), POLLOUT, clock_, deadline)) {
      return fail(Outcome::Broken, "connected, but nothing can be sent");
    }
  }
  return true;
}

bool Measurement::receive_all(std::span<char> bytes, TimeNs deadline) {
  while (!bytes.empty()) {
    const int64_t got = receive_now(socket_.number(), bytes);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<size_t>(got));
    } else if (got == 0 || !is_for_later(-got)) {
      return fail_broken(-got);
    } else if (!wait_ready(socket_.number(), POLLIN, clock_, deadline)) {
      return fail(Outcome::Broken,
                  "connected, but no answer came: what listens there is stopped, or not a doctor");
    }
  }
  return true;
}

// A byte at a time: what follows a line is not a line.
std::optional<DoctorMessage> Measurement::receive_message(TimeNs deadline) {
  std::string line;
  std::array<char, 1> letter{};
  while (line.size() <= kLineBytesMax) {
    if (!receive_all(letter, deadline)) return std::nullopt;
    if (letter[0] == '\n') {
      if (std::optional<DoctorMessage> message = parse_message(line)) return message;
      break;
    }
    line += letter[0];
  }
  fail(Outcome::Broken, "what listens there is not a doctor of this version");
  return std::nullopt;
}

}  // namespace

TimeNs measure_ns_max(const MeasureLimits& limits) {
  // connect, send and hear Ready; the pings, of which all but one are quick; the last answer.
  constexpr int kAnswers = 6;
  return kAnswers * limits.answer_ns + limits.stream_ns + kDrainNsMax;
}

PairResult measure_pair(const MeasureTask& task, const MeasureLimits& limits, const Clock& clock) {
  return Measurement(task, limits, clock).run();
}

PairResult connect_result(int error_number, int socket, const SocketAddress& peer,
                          TimeNs waited_ns) {
  PairResult result{.outcome = outcome_of_error(error_number)};
  note_ends(socket, peer, result);
  const std::string& from = result.from_address;
  result.words =
      connect_failure(error_number, from.empty() ? ":0" : from, to_string(peer), waited_ns)
          .message();
  return result;
}

FileDescriptor start_connecting(const SocketAddress& peer, int* error_number) {
  FileDescriptor socket = make_stream_socket(peer.family());
  if (!socket.is_open()) {
    *error_number = errno;
    return socket;
  }
  set_stream_options(socket.number(), 0);
  (void)choose_congestion_control(socket.number(), TcpOptions().congestion_controls);
  *error_number = 0;
  if (::connect(socket.number(), peer.raw(), peer.length_bytes) != 0)
    *error_number = errno == EINTR ? EINPROGRESS : errno;
  return socket;
}

int finish_connecting(int socket) {
  int error_number = 0;
  socklen_t length_bytes = sizeof error_number;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error_number, &length_bytes) != 0) return errno;
  return error_number;
}

bool is_for_later(int64_t error_number) {
  return error_number == EINTR || is_would_block(static_cast<int>(error_number));
}

int64_t send_now(int socket, std::span<const char> bytes) {
  const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | kNoSignalFlag);
  return sent >= 0 ? sent : -errno;
}

int64_t receive_now(int socket, std::span<char> bytes) {
  const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return got >= 0 ? got : -errno;
}

bool Responder::take(int socket, std::span<const char> bytes) {
  const size_t pings = std::min(bytes.size(), static_cast<size_t>(ping_bytes_left_));
  if (pings > 0) {
    // A few bytes at a time, so the kernel always has room; a peer that does not read is at fault.
    if (send_now(socket, bytes.first(pings)) != static_cast<int64_t>(pings)) return false;
    ping_bytes_left_ -= static_cast<int64_t>(pings);
  }
  received_bytes_ += static_cast<int64_t>(bytes.size() - pings);
  return received_bytes_ <= kReceivedBytesMax;
}

bool Responder::end(int socket) const {
  const std::string line =
      write_message({.kind = MessageKind::Received, .number = received_bytes_});
  return send_now(socket, line) == static_cast<int64_t>(line.size());
}

}  // namespace mccl
