#include "perf/local_ranks.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace mccl {
namespace {

// What is left of an error's text when it is passed on; a pipe takes so much at once.
constexpr size_t kMessageBytes = 4096;

void close_pipe(int& pipe_end) {
  if (pipe_end >= 0) close(pipe_end);
  pipe_end = -1;
}

// In the forked process.
Status run_child(int rank, int port_pipe, const LocalRanks::RankMain& rank_main, pid_t parent) {
  int port = 0;
  ssize_t count = -1;
  do {
    count = read(port_pipe, &port, sizeof port);
  } while (count < 0 && errno == EINTR);
  // Rank 0 has given up; it says why.
  if (count != static_cast<ssize_t>(sizeof port)) return Status::ok();
  return rank_main(rank, port, [parent] { return getppid() != parent; });
}

std::string read_message(int message_pipe) {
  std::array<char, kMessageBytes> buffer;
  ssize_t count = -1;
  do {
    count = read(message_pipe, buffer.data(), buffer.size());
  } while (count < 0 && errno == EINTR);
  return {buffer.data(), count > 0 ? static_cast<size_t>(count) : 0};
}

}  // namespace

Result<LocalRanks::Child> LocalRanks::fork_rank(int rank, const RankMain& rank_main) {
  std::array<int, 2> port_ends = {-1, -1};
  std::array<int, 2> message_ends = {-1, -1};
  const pid_t parent = getpid();
  const bool has_pipes = pipe(port_ends.data()) == 0 && pipe(message_ends.data()) == 0;
  const pid_t process = has_pipes ? fork() : -1;
  if (process == 0) {
    close_pipe(port_ends[1]);
    close_pipe(message_ends[0]);
    const Status status = run_child(rank, port_ends[0], rank_main, parent);
    const std::string text = status.message().substr(0, kMessageBytes);
    if (!status.is_ok() && write(message_ends[1], text.data(), text.size()) < 0) _exit(1);
    // Not exit(): what the parent has printed and not flushed would come twice.
    _exit(static_cast<int>(status.code()));
  }
  const std::string error = std::strerror(errno);
  close_pipe(port_ends[0]);
  close_pipe(message_ends[1]);
  if (process < 0) {
    close_pipe(port_ends[1]);
    close_pipe(message_ends[0]);
    return Status(StatusCode::Network, fmt::format("rank {} cannot be started: {}", rank, error));
  }
  return Child{.process = process, .port_pipe = port_ends[1], .message_pipe = message_ends[0]};
}

Result<std::unique_ptr<LocalRanks>> LocalRanks::start(int rank_count, const RankMain& rank_main) {
  std::unique_ptr<LocalRanks> ranks(new LocalRanks());
  for (int rank = 1; rank < rank_count; ++rank) {
    Result<Child> child = fork_rank(rank, rank_main);
    if (!child.is_ok()) return child.status();
    ranks->children_.push_back(child.value());
  }
  // The server has a thread: only now, when all are forked.
  Result<std::unique_ptr<StoreServer>> server = StoreServer::create(kLocalHost, 0);
  if (!server.is_ok()) return server.status();
  ranks->server_ = std::move(server).value();
  const int port = ranks->port();
  for (Child& child : ranks->children_) {
    if (write(child.port_pipe, &port, sizeof port) != static_cast<ssize_t>(sizeof port))
      return Status(StatusCode::Network, "a rank ended before it began");
    close_pipe(child.port_pipe);
  }
  return ranks;
}

LocalRanks::~LocalRanks() {
  for (Child& child : children_) {
    close_pipe(child.port_pipe);
    if (!child.has_ended) {
      kill(child.process, SIGKILL);
      look_at(child, 0);
    }
    close_pipe(child.message_pipe);
  }
}

bool LocalRanks::look_at(Child& child, int flags) {
  pid_t ended = -1;
  do {
    ended = waitpid(child.process, &child.state, flags);
  } while (ended < 0 && errno == EINTR);
  // 0: it still runs.
  if (ended != 0) child.has_ended = true;
  return child.has_ended;
}

bool LocalRanks::has_failed() {
  for (Child& child : children_)
    if ((child.has_ended || look_at(child, WNOHANG)) && child.state != 0) return true;
  return false;
}

Status LocalRanks::status_of(const Child& child, int rank) const {
  if (child.state == 0) return Status::ok();
  if (WIFSIGNALED(child.state))
    return {StatusCode::PeerLost, fmt::format("rank {} (pid {}) was ended by signal {}", rank,
                                              child.process, WTERMSIG(child.state))};
  return {static_cast<StatusCode>(WEXITSTATUS(child.state)),
          fmt::format("rank {}: {}", rank, read_message(child.message_pipe))};
}

Status LocalRanks::finish() {
  Status first;
  for (size_t index = 0; index < children_.size(); ++index) {
    Child& child = children_[index];
    if (!child.has_ended) look_at(child, 0);
    const Status status = status_of(child, static_cast<int>(index) + 1);
    if (first.is_ok()) first = status;
  }
  return first;
}

}  // namespace mccl
