// Readiness of descriptors, edge-triggered: epoll on Linux (poller_epoll.cc), kqueue on macOS
// (poller_kqueue.cc). One class, one implementation per platform, chosen when compiling.
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/clock.h"
#include "mccl/status.h"
#include "mccl/wire.h"
#include "transport/socket.h"

namespace mccl {

// Any thread may call wait() and wake(); each event is reported to one waiter. add() and remove()
// belong to one thread at a time.
class Poller {
 public:
  struct Ready {
    const void* owner = nullptr;  // as given to add()
    bool readable = false;        // also at end of stream and after an error
    bool writable = false;        // also after an error
  };

  // Network when the kernel has no descriptor left.
  static Result<std::unique_ptr<Poller>> make();

  // Reports what `descriptor` is ready for now and each time that changes. `owner` is never
  // dereferenced and is not reported again after remove().
  Status add(int descriptor, const void* owner);

  // Must come before the descriptor is closed: a forked child's copy would keep it registered.
  void remove(int descriptor);

  // Appends to `ready`. Blocks until there is something, wake() was called, a signal arrived, or
  // `timeout_ns` has passed; 0 never blocks, a negative value waits without limit.
  void wait(int64_t timeout_ns, std::vector<Ready>& ready);

  // Ends a wait() that blocks now, or the next one. Any thread.
  void wake();

  // Around a fork, on the thread that forks: WireContext's promises. add() and remove() wait.
  void begin_fork() { fork_mutex_.lock(); }
  void end_fork(ForkSide side);

 private:
  Poller(FileDescriptor queue, FileDescriptor wake_up);

  FileDescriptor queue_;
  FileDescriptor wake_up_;  // an eventfd; kqueue needs none
  std::mutex fork_mutex_;
  std::set<int> watched_;
  std::atomic<bool> has_ns_timeouts_ = true;
};

// For kernels whose wait takes milliseconds: rounds up, so that no wait ends early and no caller
// spins through the last one; negative becomes -1.
inline int round_up_to_ms(int64_t timeout_ns) {
  if (timeout_ns < 0) return -1;
  const int64_t timeout_ms = timeout_ns / kNsPerMs + (timeout_ns % kNsPerMs != 0 ? 1 : 0);
  return static_cast<int>(std::min<int64_t>(timeout_ms, INT_MAX));
}

}  // namespace mccl
