#include "comm/dump_thread.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <latch>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace mccl {
namespace {

// What the thread is told, a byte each.
constexpr char kFailure = 'f';
constexpr char kSignal = 's';
constexpr char kEnd = 'e';

// A signal handler has no argument of its own, so this is a global by necessity.
struct SignalTarget {
  std::atomic<int> descriptor{-1};
  std::atomic<pid_t> pid{0};
  std::atomic<int> running{0};  // handlers that may use the descriptor
};
SignalTarget& signal_target() {
  static constinit SignalTarget target;
  return target;
}

extern "C" void on_dump_signal(int number) {
  const int error = errno;
  SignalTarget& target = signal_target();
  if (getpid() != target.pid.load()) {
    // A forked child that has no endpoint: as if there were no handler.
    (void)std::signal(number, SIG_DFL);
    (void)std::raise(number);
  } else {
    target.running.fetch_add(1);
    const int descriptor = target.descriptor.load();
    if (descriptor >= 0) (void)!write(descriptor, &kSignal, 1);
    target.running.fetch_sub(1);
  }
  errno = error;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == &on_dump_signal;
}

// False when somebody else handles the signal, or another endpoint of this process.
bool take_signal(int descriptor) {
  struct sigaction action {};
  if (sigaction(SIGUSR1, nullptr, &action) != 0) return false;
  SignalTarget& target = signal_target();
  const bool is_default = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
  // Ours without an endpoint of this process: inherited by a fork, or left by an earlier endpoint.
  const bool is_free =
      is_ours(action) && (target.pid.load() != getpid() || target.descriptor.load() < 0);
  if (!is_default && !is_free) return false;
  target.descriptor.store(descriptor);
  target.pid.store(getpid());
  action = {};
  action.sa_handler = &on_dump_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // the program's own calls do not notice
  return sigaction(SIGUSR1, &action, nullptr) == 0;
}

// The handler stays, and does nothing any more: with the default back, a signal that `mccl dump`
// has sent meanwhile would end the process.
void give_signal_back(int descriptor) {
  SignalTarget& target = signal_target();
  // Another endpoint may have taken it, after the program had put the default back.
  if (!target.descriptor.compare_exchange_strong(descriptor, -1)) return;
  while (target.running.load() > 0) std::this_thread::yield();
}

// Closed in what this process executes; the writing end never blocks. False with errno set.
bool make_pipe(int (&ends)[2]) {
#if defined(__linux__)
  if (pipe2(ends, O_CLOEXEC) != 0) return false;  // at once: another thread may fork and execute
#else
  if (pipe(ends) != 0) return false;
  for (const int end : ends)
    if (fcntl(end, F_SETFD, FD_CLOEXEC) != 0) return false;
#endif
  return fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0;
}

}  // namespace

Result<std::unique_ptr<DumpThread>> DumpThread::start(DumpFile file, const Logger& logger,
                                                      std::function<ProcessDump()> take) {
  int ends[2] = {-1, -1};
  if (!make_pipe(ends))
    return Status(StatusCode::Network, std::string("no pipe can be made: ") + std::strerror(errno));
  return std::unique_ptr<DumpThread>(
      new DumpThread(std::move(file), logger, std::move(take), {ends[1], ends[0]}));
}

DumpThread::DumpThread(DumpFile file, const Logger& logger, std::function<ProcessDump()> take,
                       Pipe pipe)
    : file_(std::move(file)), logger_(logger), take_(std::move(take)), pipe_(pipe) {
  has_signal_ = take_signal(pipe_.in);
  if (!has_signal_)
    logger_.debug("SIGUSR1 is handled already and is left alone; `mccl dump PID` needs it");
  // Whoever looks for the thread by its name finds it as soon as the signal is taken.
  std::latch is_named(1);
  thread_ = std::thread([this, &is_named] {
    name_this_thread(has_signal_ ? kDumpThreadName : "mccl-dump-file");
    is_named.count_down();
    run();
  });
  is_named.wait();
}

DumpThread::~DumpThread() {
  if (has_signal_) give_signal_back(pipe_.in);
  notify(kEnd);
  thread_.join();
  close(pipe_.in);
  close(pipe_.out);
}

void DumpThread::notify(char what) const {
  // A full pipe is a thread that has enough to read already.
  while (write(pipe_.in, &what, 1) < 0 && (errno == EINTR || (errno == EAGAIN && what == kEnd)))
    std::this_thread::yield();
}

void DumpThread::hand_over(ProcessDump dump, std::vector<std::string> failures) {
  {
    const std::lock_guard lock(mutex_);
    if (pending_)
      failures.insert(failures.begin(), pending_->failures.begin(), pending_->failures.end());
    pending_ = Work{std::move(dump), std::move(failures)};
  }
  notify(kFailure);
}

void DumpThread::run() {
  char what = kFailure;
  while (what != kEnd) {
    const ssize_t count = read(pipe_.out, &what, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    write_failures();
    if (what == kSignal) answer_signal();
  }
}

void DumpThread::write_failures() {
  std::optional<Work> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(pending_);
  }
  if (!work) return;
  const uint64_t writer = work->dump.process.peer.process_id;
  const Status written = write_dump_file(file_, write_dump(work->dump), writer);
  for (const std::string& failure : work->failures)
    logger_.warning(failure +
                    (written.is_ok() ? "; the last operations: " + file_.path() : std::string()));
  if (!written.is_ok()) complain("the last operations are not written: " + written.message());
}

void DumpThread::answer_signal() {
  const ProcessDump dump = take_();
  const Status written = write_dump_file(file_, write_dump(dump), dump.process.peer.process_id);
  if (written.is_ok())
    logger_.info("SIGUSR1: the last operations: " + file_.path());
  else
    complain("SIGUSR1: the last operations are not written: " + written.message());
}

void DumpThread::complain(const std::string& text) {
  if (std::exchange(has_complained_, true))
    logger_.debug(text);
  else
    logger_.warning(text);
}

}  // namespace mccl
