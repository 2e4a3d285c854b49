// Wires over TCP. A context is one listener, one poller and the settings that its connections
// share; a wire is one socket. The kernel keeps all state but the failures: the first failure of
// each direction is kept, because the kernel reports it once only. The directions fail apart, as
// bytes that arrived before a reset are still read after a write has noticed it.
//
// Cost: one system call per write or read; a second one after a short write, so that the kernel is
// known to be full and will announce room. Facts behind the options: BBR, the default of many
// images, moves a half to a third of cubic's or reno's bytes on loopback and inside small virtual
// machines; fixed buffers switch off the kernel's autotuning.
//
// Tested by test/conformance/wire_test.cc and test/unit/transport/tcp_wire_test.cc.
#include "transport/tcp_wire.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "transport/peer_silence.h"
#include "transport/piece_cursor.h"
#include "transport/poller.h"
#include "transport/port_holder.h"
#include "transport/socket.h"
#include "transport/tcp_words.h"

namespace mccl {
namespace {

constexpr int kBacklog = 1024;
// What the ends of all wires of a context may take together when peers do not acknowledge: two
// seconds.
constexpr TimeNs kAcceptAgainNs = 50 * kNsPerMs;
constexpr int kLingerTickMs = 5;
constexpr int kLingerTicks = 400;
constexpr size_t kHoldersNamed = 3;  // of a range of ports that are all in use
constexpr int kLingerReadsPerTick = 1'024;

class TcpWire final : public Wire {
 public:
  // `connect_error` is what connect() answered: 0, EINPROGRESS or a failure.
  TcpWire(std::shared_ptr<Poller> poller, std::shared_ptr<int> linger_ticks_left,
          FileDescriptor socket, const SocketAddress& peer, uint64_t token, int connect_error,
          TimeNs peer_timeout_ns)
      : poller_(std::move(poller)),
        linger_ticks_left_(std::move(linger_ticks_left)),
        socket_(std::move(socket)),
        local_text_(to_string(local_address(socket_.number()))),
        peer_text_(to_string(peer)),
        token_(token),
        is_connecting_(connect_error != 0) {
    if (peer_timeout_ns > 0) watch_.emplace(peer_timeout_ns);
    if (connect_error != 0 && connect_error != EINPROGRESS) fail_to_connect(connect_error, 0);
  }
  ~TcpWire() override {
    linger();
    close();
  }
  TcpWire(const TcpWire&) = delete;
  TcpWire& operator=(const TcpWire&) = delete;

  // By its token, not its address: a thread that returns from the poll may find the wire destroyed.
  Status watch() { return poller_->add(socket_.number(), reinterpret_cast<const void*>(token_)); }

  Result<size_t> write(std::span<const iovec> pieces) override;
  Result<size_t> read(std::span<const iovec> pieces) override;
  Status check_peer(int64_t now_ns) override;
  void close() override;
  std::string describe() const override {
    return fmt::format("{} -> {} over tcp", local_text_, peer_text_);
  }
  std::string peer_host() const override { return peer_text_.substr(0, peer_text_.rfind(':')); }

 private:
  void linger();
  void finish_connecting();
  void fail_to_connect(int error_number, TimeNs waited_ns);
  Status failure_now(int error_number) const;
  Status failure(StatusCode code, const std::string& reason) const {
    return Status(code, describe() + ": " + reason);
  }

  std::shared_ptr<Poller> poller_;  // shared: a wire may outlive its context
  std::shared_ptr<int> linger_ticks_left_;
  FileDescriptor socket_;
  std::string local_text_;
  std::string peer_text_;
  uint64_t token_;
  bool is_connecting_;
  bool has_written_ = false;
  std::optional<SilenceWatch> watch_;
  Status silence_;  // why check_peer() has given the peer up
  Status write_failure_;
  Status read_failure_;
};

Result<size_t> TcpWire::write(std::span<const iovec> pieces) {
  if (is_connecting_) finish_connecting();
  if (!write_failure_.is_ok()) return write_failure_;
  if (is_connecting_) return 0;

  size_t total_bytes = 0;
  for (PieceCursor cursor(pieces); !cursor.is_done();) {
    const ssize_t sent_bytes =
        ::sendmsg(socket_.number(), cursor.next_batch(), MSG_DONTWAIT | kNoSignalFlag);
    if (sent_bytes >= 0) {
      has_written_ = true;
      total_bytes += static_cast<size_t>(sent_bytes);
      cursor.advance(static_cast<size_t>(sent_bytes));
      continue;
    }
    if (errno == EINTR) continue;
    if (is_would_block(errno)) break;
    write_failure_ = failure_now(errno);
    if (total_bytes == 0) return write_failure_;
    break;
  }
  return total_bytes;
}

Result<size_t> TcpWire::read(std::span<const iovec> pieces) {
  if (is_connecting_) finish_connecting();
  if (!read_failure_.is_ok()) return read_failure_;
  PieceCursor cursor(pieces);
  // A read of nothing would look like the end of the stream.
  if (is_connecting_ || cursor.is_done()) return 0;

  while (true) {
    const ssize_t read_bytes = ::recvmsg(socket_.number(), cursor.next_batch(), MSG_DONTWAIT);
    if (read_bytes > 0) return static_cast<size_t>(read_bytes);
    if (read_bytes == 0) {
      read_failure_ = failure(StatusCode::PeerLost, "closed by the peer");
    } else if (errno == EINTR) {
      continue;
    } else if (is_would_block(errno)) {
      if (silence_.is_ok()) return 0;
      read_failure_ = silence_;
    } else {
      read_failure_ = failure_now(errno);
    }
    return read_failure_;
  }
}

Status TcpWire::failure_now(int error_number) const {
  const std::optional<PeerSilence> peer = peer_silence(socket_.number());
  return connection_failure(error_number, describe(), peer ? peer->silent_ns : 0);
}

Status TcpWire::check_peer(int64_t now_ns) {
  if (is_connecting_) finish_connecting();
  if (!silence_.is_ok() || !watch_ || !write_failure_.is_ok() || !read_failure_.is_ok())
    return silence_;
  if (is_connecting_) {
    const TimeNs waited_ns = watch_->connecting_ns(now_ns);
    if (waited_ns >= watch_->timeout_ns()) fail_to_connect(ETIMEDOUT, waited_ns);
    return silence_ = write_failure_;
  }
  const std::optional<PeerSilence> peer = peer_silence(socket_.number());
  if (peer && watch_->is_lost(*peer, now_ns))
    silence_ = write_failure_ = connection_failure(ETIMEDOUT, describe(), peer->silent_ns);
  return silence_;
}

void TcpWire::close() {
  if (!socket_.is_open()) return;
  poller_->remove(socket_.number());
  socket_.close();
  const Status closed = failure(StatusCode::Network, "closed by this process");
  if (write_failure_.is_ok()) write_failure_ = closed;
  if (read_failure_.is_ok()) read_failure_ = closed;
}

// A socket that is closed with bytes unread resets the connection, and what the kernel had still to
// send is lost: bytes that the engine counts as captured. So the end waits until the peer's kernel
// has them, reading what comes meanwhile; on a sound network that is at once.
void TcpWire::linger() {
  if (!socket_.is_open() || !has_written_ || !write_failure_.is_ok() || !read_failure_.is_ok())
    return;
  ::shutdown(socket_.number(), SHUT_WR);
  std::array<std::byte, 4096> unread;
  for (; *linger_ticks_left_ > 0; --*linger_ticks_left_) {
    ssize_t got = 1;
    for (int reads = 0; got > 0 && reads < kLingerReadsPerTick; ++reads)
      got = ::recv(socket_.number(), unread.data(), unread.size(), MSG_DONTWAIT);
    // The peer has closed: the kernel does the rest, and nothing unread can disturb it.
    if (got == 0 || (got < 0 && !is_would_block(errno) && errno != EINTR)) return;
    if (unsent_bytes(socket_.number()) == 0) return;
    // Nothing announces that the last byte was acknowledged, so it is asked for at every tick.
    pollfd watched{socket_.number(), POLLIN, 0};
    ::poll(&watched, 1, kLingerTickMs);
  }
}

void TcpWire::finish_connecting() {
  if (!socket_.is_open() || !write_failure_.is_ok()) return;
  pollfd watched{socket_.number(), POLLOUT, 0};
  if (::poll(&watched, 1, 0) <= 0) return;
  int error_number = 0;
  socklen_t length_bytes = sizeof error_number;
  if (::getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &error_number, &length_bytes) != 0)
    error_number = errno;
  // Without a listener, a port of the ephemeral range can be given to the connecting socket itself,
  // and TCP then connects it to itself.
  if (error_number == 0 && local_text_ == peer_text_) error_number = ECONNREFUSED;
  if (error_number != 0) return fail_to_connect(error_number, 0);
  is_connecting_ = false;
}

void TcpWire::fail_to_connect(int error_number, TimeNs waited_ns) {
  write_failure_ = connect_failure(error_number, local_text_, peer_text_, waited_ns);
  read_failure_ = write_failure_;
}

class TcpContext final : public WireContext {
 public:
  TcpContext(std::unique_ptr<Poller> poller, FileDescriptor listener, const TcpOptions& options,
             std::string congestion_control)
      : poller_(std::move(poller)),
        listener_(std::move(listener)),
        address_("tcp://" + to_string(local_address(listener_.number()))),
        buffer_bytes_(options.socket_buffer_bytes),
        peer_timeout_ns_(options.peer_timeout_ns),
        congestion_control_(std::move(congestion_control)) {}
  ~TcpContext() override { poller_->remove(listener_.number()); }
  TcpContext(const TcpContext&) = delete;
  TcpContext& operator=(const TcpContext&) = delete;

  Status watch() { return poller_->add(listener_.number(), this); }

  std::string address() const override { return address_; }
  Result<std::unique_ptr<Wire>> connect(const std::string& address, uint64_t token) override;
  std::unique_ptr<Wire> accept(uint64_t token) override;
  void poll(int64_t timeout_ns, std::vector<WireEvent>& events) override;
  void wake() override { poller_->wake(); }
  void begin_fork() override { poller_->begin_fork(); }
  void end_fork(ForkSide side) override { poller_->end_fork(side); }

 private:
  void apply_options(int socket) const {
    set_stream_options(socket, buffer_bytes_);
    set_congestion_control(socket, congestion_control_);
    if (peer_timeout_ns_ > 0) set_silence_timers(socket, silence_timers(peer_timeout_ns_));
  }

  std::shared_ptr<Poller> poller_;  // shared with the wires
  std::shared_ptr<int> linger_ticks_left_ = std::make_shared<int>(kLingerTicks);
  FileDescriptor listener_;
  std::string address_;
  int buffer_bytes_;
  TimeNs peer_timeout_ns_;
  std::string congestion_control_;  // what the kernel allowed when the listener was made
  // A connection waits for which no descriptor was left: when to try again; kNever: none does.
  std::atomic<TimeNs> accept_again_at_ = kNever;
};

namespace {

std::string no_socket_text(int error_number) {
  if (error_number != EMFILE) return error_text(error_number);
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return fmt::format(
      "this process (pid {}) has no free file descriptor; its limit (ulimit -n) is {}", ::getpid(),
      limit.rlim_cur);
}

}  // namespace

Result<std::unique_ptr<Wire>> TcpContext::connect(const std::string& address, uint64_t token) {
  Result<SocketAddress> peer = parse_tcp_address(address);
  if (!peer.is_ok()) return peer.status();
  FileDescriptor socket = make_stream_socket(peer.value().family());
  if (!socket.is_open())
    return Status(StatusCode::Network,
                  fmt::format("cannot connect to {}: {}", address, no_socket_text(errno)));
  apply_options(socket.number());
  int error_number = 0;
  if (::connect(socket.number(), peer.value().raw(), peer.value().length_bytes) != 0)
    error_number = errno == EINTR ? EINPROGRESS : errno;
  auto wire = std::make_unique<TcpWire>(poller_, linger_ticks_left_, std::move(socket),
                                        peer.value(), token, error_number, peer_timeout_ns_);
  // Also after a failure: the poller then reports the socket, and the caller finds the failure.
  MCCL_RETURN_IF_ERROR(wire->watch());
  return std::unique_ptr<Wire>(std::move(wire));
}

std::unique_ptr<Wire> TcpContext::accept(uint64_t token) {
  while (true) {
    FileDescriptor socket = accept_stream_socket(listener_.number());
    accept_again_at_ = kNever;
    if (!socket.is_open()) {
      // Linux hands on the error of a connection that died in the queue: the next one may be well.
      if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
      if (!is_would_block(errno)) accept_again_at_ = SystemClock().now() + kAcceptAgainNs;
      return nullptr;
    }
    apply_options(socket.number());
    const SocketAddress peer = peer_address(socket.number());
    auto wire = std::make_unique<TcpWire>(poller_, linger_ticks_left_, std::move(socket), peer,
                                          token, 0, peer_timeout_ns_);
    if (wire->watch().is_ok()) return wire;
  }
}

void TcpContext::poll(int64_t timeout_ns, std::vector<WireEvent>& events) {
  std::vector<Poller::Ready> ready_now;  // several threads may poll; allocates only with events
  // Nothing reports that a descriptor has become free.
  if (accept_again_at_ != kNever)
    timeout_ns = timeout_ns < 0 ? kAcceptAgainNs : std::min<int64_t>(timeout_ns, kAcceptAgainNs);
  poller_->wait(timeout_ns, ready_now);
  const TimeNs now = accept_again_at_ == kNever ? 0 : SystemClock().now();
  bool is_acceptable = now >= accept_again_at_;
  if (is_acceptable) accept_again_at_ = now + kAcceptAgainNs;
  for (const Poller::Ready& ready : ready_now) {
    if (ready.owner == this) {
      is_acceptable = true;
      continue;
    }
    events.push_back({.token = reinterpret_cast<uint64_t>(ready.owner),
                      .readable = ready.readable,
                      .writable = ready.writable});
  }
  if (is_acceptable) events.push_back({.acceptable = true});
}

// The first port that is free, or the last error.
Result<FileDescriptor> listen_in_range(const TcpOptions& options, std::string& congestion_control) {
  int error_number = 0;
  std::vector<std::string> holders;
  for (int port = options.port_first; port <= options.port_last; ++port) {
    Result<SocketAddress> address = parse_host(options.listen_address, static_cast<uint16_t>(port));
    if (!address.is_ok()) return address.status();
    FileDescriptor listener = make_stream_socket(address.value().family());
    if (listener.is_open()) {
      const int on = 1;
      ::setsockopt(listener.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (address.value().family() == AF_INET6)
        ::setsockopt(listener.number(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
      set_stream_options(listener.number(), options.socket_buffer_bytes);
      congestion_control =
          choose_congestion_control(listener.number(), options.congestion_controls);
      if (::bind(listener.number(), address.value().raw(), address.value().length_bytes) == 0 &&
          ::listen(listener.number(), kBacklog) == 0)
        return listener;
    }
    error_number = errno;
    if (error_number != EADDRINUSE && error_number != EACCES) break;
    if (error_number == EADDRINUSE && options.port_first != 0 && holders.size() < kHoldersNamed)
      holders.push_back(describe_port_holder(address.value()));
  }
  const std::string reason =
      holders.empty() ? error_text(error_number)
                      : fmt::format("{}; {}", error_text(error_number), fmt::join(holders, "; "));
  return Status(StatusCode::Network,
                fmt::format("cannot listen on {} port {}: {}", options.listen_address,
                            options.port_first == options.port_last
                                ? std::to_string(options.port_first)
                                : fmt::format("{} to {}", options.port_first, options.port_last),
                            reason));
}

}  // namespace

Result<std::unique_ptr<WireContext>> make_tcp_context(const TcpOptions& options) {
  TcpOptions complete = options;
  if (complete.port_first == 0) complete.port_last = 0;
  if (complete.port_first < 0 || complete.port_last > 65535 ||
      complete.port_first > complete.port_last)
    return Status(StatusCode::InvalidArgument,
                  fmt::format("ports {} to {} are not a range in 1 to 65535", options.port_first,
                              options.port_last));
  std::string congestion_control;
  Result<FileDescriptor> listener = listen_in_range(complete, congestion_control);
  if (!listener.is_ok()) return listener.status();
  Result<std::unique_ptr<Poller>> poller = Poller::make();
  if (!poller.is_ok()) return poller.status();
  auto context =
      std::make_unique<TcpContext>(std::move(poller).value(), std::move(listener).value(), complete,
                                   std::move(congestion_control));
  MCCL_RETURN_IF_ERROR(context->watch());
  return std::unique_ptr<WireContext>(std::move(context));
}

}  // namespace mccl
