#if !defined(__APPLE__)

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <span>

#include "base/check.h"
#include "base/clock.h"
#include "transport/poller.h"

// epoll_pwait2 (nanosecond timeouts) needs Linux 5.11 and glibc 2.35.
#if defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 35)
#define MCCL_HAS_EPOLL_PWAIT2 1
#endif
#endif

namespace mccl {
namespace {

constexpr size_t kEventsPerCall = 128;

Status no_poller(int error_number) {
  return Status(StatusCode::Network, "cannot make a poller: " + error_text(error_number));
}

int wait_for_events(int queue, epoll_event* events, int64_t timeout_ns,
                    std::atomic<bool>& has_ns_timeouts) {
  constexpr int kCount = static_cast<int>(kEventsPerCall);
#if defined(MCCL_HAS_EPOLL_PWAIT2)
  if (has_ns_timeouts) {
    timespec timeout{};
    timeout.tv_sec = timeout_ns / kNsPerSecond;
    timeout.tv_nsec = timeout_ns % kNsPerSecond;
    const timespec* limit = timeout_ns < 0 ? nullptr : &timeout;
    const int count = ::epoll_pwait2(queue, events, kCount, limit, nullptr);
    // EPERM: a container's system call filter that does not know the call.
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    has_ns_timeouts = false;
  }
#else
  has_ns_timeouts = false;
#endif
  return ::epoll_wait(queue, events, kCount, round_up_to_ms(timeout_ns));
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::make() {
  FileDescriptor queue(::epoll_create1(EPOLL_CLOEXEC));
  if (!queue.is_open()) return no_poller(errno);
  FileDescriptor wake_up(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_up.is_open()) return no_poller(errno);
  std::unique_ptr<Poller> poller(new Poller(std::move(queue), std::move(wake_up)));
  // Readable only: reading it would otherwise be reported as room to write.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = poller.get();
  if (::epoll_ctl(poller->queue_.number(), EPOLL_CTL_ADD, poller->wake_up_.number(), &event) != 0)
    return no_poller(errno);
  return poller;
}

Poller::Poller(FileDescriptor queue, FileDescriptor wake_up)
    : queue_(std::move(queue)), wake_up_(std::move(wake_up)) {}

Status Poller::add(int descriptor, const void* owner) {
  const std::lock_guard lock(fork_mutex_);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = const_cast<void*>(owner);
  if (::epoll_ctl(queue_.number(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    return Status(StatusCode::Network, "cannot watch a socket: " + error_text(errno));
  watched_.insert(descriptor);
  return Status::ok();
}

void Poller::remove(int descriptor) {
  const std::lock_guard lock(fork_mutex_);
  watched_.erase(descriptor);
  epoll_event unused{};
  ::epoll_ctl(queue_.number(), EPOLL_CTL_DEL, descriptor, &unused);
}

void Poller::wait(int64_t timeout_ns, std::vector<Ready>& ready) {
  std::array<epoll_event, kEventsPerCall> events;
  const int count = wait_for_events(queue_.number(), events.data(), timeout_ns, has_ns_timeouts_);
  if (count < 0) {
    MCCL_CHECK_EQ(errno, EINTR);
    return;
  }
  for (const epoll_event& event : std::span(events).first(static_cast<size_t>(count))) {
    if (event.data.ptr == this) {
      uint64_t wake_count = 0;
      (void)!::read(wake_up_.number(), &wake_count, sizeof wake_count);
      continue;
    }
    const bool is_broken = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    ready.push_back({.owner = event.data.ptr,
                     .readable = is_broken || (event.events & (EPOLLIN | EPOLLRDHUP)) != 0,
                     .writable = is_broken || (event.events & EPOLLOUT) != 0});
  }
}

void Poller::wake() {
  const uint64_t one = 1;
  // The counter cannot overflow in practice, and a full counter wakes as well.
  (void)!::write(wake_up_.number(), &one, sizeof one);
}

// The queue first: what is closed while it is open stays registered, for the parent, in any case.
void Poller::end_fork(ForkSide side) {
  if (side == ForkSide::Child) {
    queue_.close();
    wake_up_.close();
    for (const int descriptor : watched_) ::close(descriptor);
    watched_.clear();
  }
  fork_mutex_.unlock();
}

}  // namespace mccl

#endif
