// Who drives the engine, and how waiting is done (law L12).
//
// Whoever holds the token (one mutex) may move the engine. A caller that waits drives: that is
// where microseconds are won, because a wake-up costs fifteen times a spin. While callers come and
// go, the endpoint's own thread stays off the sockets; it takes over when a caller leaves work
// behind, and it listens when nobody has called for a while, so that peers are answered and idling
// costs no CPU.
//
// What a caller's predicate does is not known: it may run a signal handler, which makes calls,
// waits or destroys everything. So a waiting caller leaves the driver before it asks, and holds
// nothing.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "comm/engine.h"
#include "mccl/status.h"

namespace mccl {

// How a caller waits before it blocks, in nanoseconds since something last happened.
struct WaitPolicy {
  TimeNs spin_ns = 50 * kNsPerUs;  // polls without giving up the core
  TimeNs yield_ns = 0;             // then polls, giving up the core between polls
};

// Spin when every rank on the host has a core, else hand the core over early.
WaitPolicy choose_wait_policy(int ranks_on_host, int cores);

class Driver;

// The way in for waiting callers: outlives the driver, so that a wait that begins, or goes on, when
// the driver is gone finds that out.
class DriverDoor {
 public:
  explicit DriverDoor(Driver& driver);

  // Drives until `is_done`, `timeout_ns` has passed (Timeout; negative: no limit) or `interrupted`
  // returns true (Aborted; asked about every 100 ms, on this thread, with nothing held). Ok also
  // when there is no driver any more: then every work is done. InvalidArgument in a forked child:
  // the sockets are the parent's.
  Status wait(const std::atomic<bool>& is_done, int64_t timeout_ns,
              const std::function<bool()>& interrupted);
  // False in a forked child.
  bool is_of_this_process() const;

 private:
  friend class Driver;
  Driver* enter();

  std::mutex mutex_;
  Driver* driver_;
  int pid_;
};

class Driver {
 public:
  // `engine` and `wires` outlive the driver. Without a thread only callers (or a simulator that
  // calls with_engine) drive.
  Driver(Engine& engine, WireContext& wires, bool has_thread);
  // Every work is done; waits until callers that have not seen it yet have left.
  ~Driver();

  void set_wait_policy(const WaitPolicy& policy);

  // Calls `action` with the engine held, then lets the engine do what is possible now. Unless
  // `will_wait`, the endpoint's thread sees to what is left.
  void with_engine(const std::function<void()>& action, bool will_wait);

  const std::shared_ptr<DriverDoor>& door() const { return door_; }

 private:
  friend class DriverDoor;

  const Clock& clock() const { return engine_.clock(); }
  // Drives until `is_done` or `until`. The caller has entered by the door.
  void wait_until(const std::atomic<bool>& is_done, TimeNs until);
  void leave();
  void run_thread();
  void drive(std::unique_lock<std::mutex>& token, const std::atomic<bool>& is_done, TimeNs until);
  // Passes until nothing is possible; tells waiters about completions.
  bool pass(bool is_idle);
  void listen(std::unique_lock<std::mutex>& token, TimeNs until, bool is_caller);
  // The endpoint's thread is to see to what is left.
  void leave_work();
  void give_way(std::unique_lock<std::mutex>& token);

  Engine& engine_;
  WireContext& wires_;
  std::mutex token_;
  std::atomic<int> contenders_{0};  // threads that want the token for a moment
  std::condition_variable done_;    // callers that wait while another one drives
  std::condition_variable work_;    // the endpoint's thread
  int callers_ = 0;                 // inside wait_until()
  std::atomic<int> visitors_{0};    // between the door's enter() and leave()
  bool is_driven_ = false;          // by a caller
  int blocked_ = 0;                 // threads inside a blocking poll
  int blocked_callers_ = 0;         // callers among them
  uint64_t visits_ = 0;             // calls of wait() that had to wait
  bool is_listening_idle_ = false;  // the thread listens without a time limit
  bool is_stopping_ = false;
  bool has_left_work_ = false;  // for the thread: somebody left something to do
  uint64_t seen_completed_ = 0;
  WaitPolicy policy_;
  std::vector<WireEvent> caller_events_;
  std::shared_ptr<DriverDoor> door_;
  std::thread thread_;
};

}  // namespace mccl
