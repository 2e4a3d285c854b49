// The macOS poller: one registration per direction, both edge-triggered. It has only been
// type-checked against declarations of the calls below; it has not run on Apple hardware.
#if defined(__APPLE__)

#include <sys/event.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <span>

#include "base/check.h"
#include "base/clock.h"
#include "transport/poller.h"

namespace mccl {
namespace {

constexpr size_t kEventsPerCall = 128;

// The identifier of the user event, in a name space of its own.
constexpr uintptr_t kWakeUp = 0;

struct kevent change(uintptr_t identifier, int16_t filter, uint16_t flags, const void* owner) {
  struct kevent event {};
  event.ident = identifier;
  event.filter = filter;
  event.flags = flags;
  event.udata = const_cast<void*>(owner);
  return event;
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::make() {
  FileDescriptor queue(::kqueue());  // not inherited by a forked child
  const struct kevent wake_up = change(kWakeUp, EVFILT_USER, EV_ADD | EV_CLEAR, nullptr);
  if (!queue.is_open() || ::kevent(queue.number(), &wake_up, 1, nullptr, 0, nullptr) != 0)
    return Status(StatusCode::Network, "cannot make a poller: " + error_text(errno));
  return std::unique_ptr<Poller>(new Poller(std::move(queue), FileDescriptor()));
}

Poller::Poller(FileDescriptor queue, FileDescriptor wake_up)
    : queue_(std::move(queue)), wake_up_(std::move(wake_up)) {}

Status Poller::add(int descriptor, const void* owner) {
  const std::lock_guard lock(fork_mutex_);
  const auto identifier = static_cast<uintptr_t>(descriptor);
  const std::array<struct kevent, 2> changes = {
      change(identifier, EVFILT_READ, EV_ADD | EV_CLEAR, owner),
      change(identifier, EVFILT_WRITE, EV_ADD | EV_CLEAR, owner)};
  if (::kevent(queue_.number(), changes.data(), 2, nullptr, 0, nullptr) != 0)
    return Status(StatusCode::Network, "cannot watch a socket: " + error_text(errno));
  watched_.insert(descriptor);
  return Status::ok();
}

void Poller::remove(int descriptor) {
  const std::lock_guard lock(fork_mutex_);
  watched_.erase(descriptor);
  const auto identifier = static_cast<uintptr_t>(descriptor);
  for (const int16_t filter : {int16_t{EVFILT_READ}, int16_t{EVFILT_WRITE}}) {
    const struct kevent removal = change(identifier, filter, EV_DELETE, nullptr);
    ::kevent(queue_.number(), &removal, 1, nullptr, 0, nullptr);
  }
}

void Poller::wait(int64_t timeout_ns, std::vector<Ready>& ready) {
  timespec timeout{};
  timeout.tv_sec = timeout_ns / kNsPerSecond;
  timeout.tv_nsec = timeout_ns % kNsPerSecond;
  const timespec* limit = timeout_ns < 0 ? nullptr : &timeout;
  std::array<struct kevent, kEventsPerCall> events;
  const int count =
      ::kevent(queue_.number(), nullptr, 0, events.data(), static_cast<int>(kEventsPerCall), limit);
  if (count < 0) {
    MCCL_CHECK_EQ(errno, EINTR);
    return;
  }
  for (const struct kevent& event : std::span(events).first(static_cast<size_t>(count))) {
    if (event.filter == EVFILT_USER) continue;
    ready.push_back({.owner = event.udata,
                     .readable = event.filter == EVFILT_READ,
                     .writable = event.filter == EVFILT_WRITE});
  }
}

void Poller::wake() {
  struct kevent trigger = change(kWakeUp, EVFILT_USER, 0, nullptr);
  trigger.fflags = NOTE_TRIGGER;
  ::kevent(queue_.number(), &trigger, 1, nullptr, 0, nullptr);
}

// The queue itself is not inherited.
void Poller::end_fork(ForkSide side) {
  if (side == ForkSide::Child) {
    for (const int descriptor : watched_) ::close(descriptor);
    watched_.clear();
  }
  fork_mutex_.unlock();
}

}  // namespace mccl

#endif
