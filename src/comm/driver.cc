#include "comm/driver.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/thread_name.h"

namespace mccl {
namespace {

// After a caller has left, the thread waits this long before it listens itself: a program that
// calls often never pays for a second thread at the sockets, and peers wait at most so long for
// credits.
constexpr TimeNs kGraceNs = 5 * kNsPerMs;
// Upper bound of one blocking poll: new deadlines and interrupts are noticed this late.
constexpr TimeNs kSliceNs = 100 * kNsPerMs;

// What peers are still to hear, such as that this rank leaves, may take so long at the end.
constexpr TimeNs kFarewellNs = 2 * kNsPerSecond;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

WaitPolicy choose_wait_policy(int ranks_on_host, int cores) {
  if (ranks_on_host <= cores) return {.spin_ns = 100 * kNsPerUs, .yield_ns = 0};
  return {.spin_ns = 0, .yield_ns = 100 * kNsPerUs};
}

Driver::Driver(Engine& engine, WireContext& wires, bool has_thread)
    : engine_(engine), wires_(wires), door_(std::make_shared<DriverDoor>(*this)) {
  if (has_thread) thread_ = std::thread([this] { run_thread(); });
}

Driver::~Driver() {
  {
    const std::lock_guard lock(door_->mutex_);
    door_->driver_ = nullptr;
  }
  {
    std::unique_lock token(token_);
    is_stopping_ = true;
    // Whoever still waits has a work that is done, and is about to see it.
    done_.notify_all();
    if (blocked_callers_ > 0) wires_.wake();
    done_.wait(token, [this] { return visitors_.load() == 0; });
  }
  if (!thread_.joinable()) return;
  work_.notify_all();
  wires_.wake();
  thread_.join();
}

void Driver::set_wait_policy(const WaitPolicy& policy) {
  const std::lock_guard lock(token_);
  policy_ = policy;
}

bool Driver::pass(bool is_idle) {
  const bool has_worked = engine_.pass(is_idle);
  if (has_worked)
    while (contenders_.load(std::memory_order_relaxed) == 0 && engine_.pass(false)) {
    }
  if (engine_.completed_count() != seen_completed_) {
    seen_completed_ = engine_.completed_count();
    if (callers_ > (is_driven_ ? 1 : 0)) done_.notify_all();
    if (blocked_callers_ > 0) wires_.wake();
  }
  return has_worked;
}

void Driver::with_engine(const std::function<void()>& action, bool will_wait) {
  contenders_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock token(token_);
  contenders_.fetch_sub(1, std::memory_order_relaxed);
  action();
  pass(false);
  // Whoever listens sleeps on, so what waits for company goes out now.
  if (is_driven_ && blocked_callers_ > 0) pass(true);
  if (will_wait || is_driven_ || !engine_.has_work()) return;
  leave_work();
}

void Driver::leave_work() {
  if (blocked_ > 0) {
    // The thread listens already; without a time limit it would not see the new deadline.
    pass(true);
    if (is_listening_idle_) wires_.wake();
    return;
  }
  has_left_work_ = true;
  work_.notify_one();
}

DriverDoor::DriverDoor(Driver& driver) : driver_(&driver), pid_(::getpid()) {}

Driver* DriverDoor::enter() {
  const std::lock_guard lock(mutex_);
  if (driver_ != nullptr) driver_->visitors_.fetch_add(1);
  return driver_;
}

bool DriverDoor::is_of_this_process() const {
  return ::getpid() == pid_;
}

Status DriverDoor::wait(const std::atomic<bool>& is_done, int64_t timeout_ns,
                        const std::function<bool()>& interrupted) {
  std::optional<TimeNs> deadline;
  if (!is_done.load(std::memory_order_acquire) && !is_of_this_process())
    return Status(StatusCode::InvalidArgument,
                  "this process was forked from the one that made the call");
  while (!is_done.load(std::memory_order_acquire)) {
    Driver* driver = enter();
    if (driver == nullptr) return Status::ok();
    const TimeNs now = driver->clock().now();
    if (!deadline) deadline = timeout_ns < 0 ? kNever : deadline_after(now, timeout_ns);
    const TimeNs until = interrupted ? std::min(*deadline, now + kSliceNs) : *deadline;
    driver->wait_until(is_done, until);
    const bool is_over = *deadline != kNever && driver->clock().now() >= *deadline;
    driver->leave();
    if (is_done.load(std::memory_order_acquire)) break;
    if (interrupted && interrupted())
      return Status(StatusCode::Aborted, "the wait was interrupted");
    if (is_over && !is_done.load(std::memory_order_acquire))
      return Status(StatusCode::Timeout, "the wait timed out");
  }
  return Status::ok();
}

void Driver::leave() {
  // Told under the token: the destructor waits for the last one and for nothing after it.
  const std::lock_guard token(token_);
  visitors_.fetch_sub(1);
  if (is_stopping_) done_.notify_all();
}

void Driver::wait_until(const std::atomic<bool>& is_done, TimeNs until) {
  contenders_.fetch_add(1, std::memory_order_relaxed);
  std::unique_lock token(token_);
  contenders_.fetch_sub(1, std::memory_order_relaxed);
  ++callers_;
  ++visits_;
  while (!is_done.load(std::memory_order_acquire)) {
    if (!is_driven_) {
      is_driven_ = true;
      drive(token, is_done, until);
      is_driven_ = false;
    } else {
      const TimeNs left = until - engine_.clock().now();
      done_.wait_for(token, std::chrono::nanoseconds(std::clamp<TimeNs>(left, 0, kSliceNs)));
    }
    if (engine_.clock().now() >= until) break;
  }
  --callers_;
  if (callers_ > 0 || is_stopping_) {
    done_.notify_all();
  } else if (engine_.has_work()) {
    leave_work();
  }
}

// Lets threads that want the token have it.
void Driver::give_way(std::unique_lock<std::mutex>& token) {
  token.unlock();
  std::this_thread::yield();
  token.lock();
}

void Driver::drive(std::unique_lock<std::mutex>& token, const std::atomic<bool>& is_done,
                   TimeNs until) {
  const Clock& clock = engine_.clock();
  TimeNs last_work = clock.now();
  TimeNs next_check = last_work + kSliceNs;
  bool is_idle = false;
  while (!is_done.load(std::memory_order_acquire)) {
    wires_.poll(0, caller_events_);
    if (!caller_events_.empty()) is_idle = false;  // credits may ride on what we send next
    engine_.add_events(caller_events_);
    caller_events_.clear();
    const TimeNs now = clock.now();
    if (pass(is_idle)) {
      last_work = now;
      is_idle = false;
      if (contenders_.load(std::memory_order_relaxed) > 0) give_way(token);
      continue;
    }
    if (contenders_.load(std::memory_order_relaxed) > 0) give_way(token);
    // Whatever the wires report, a deadline is looked at.
    if (!is_idle && now < until) {
      is_idle = true;  // the next pass flushes what waited for company
      continue;
    }
    if (now >= next_check || now >= until) {
      next_check = now + kSliceNs;
      engine_.expire();
      if (now >= until) return;
      continue;
    }
    if (now - last_work < policy_.spin_ns) {
      relax();
    } else if (now - last_work < policy_.spin_ns + policy_.yield_ns) {
      give_way(token);
    } else {
      const TimeNs due = engine_.expire();
      if (pass(true)) continue;  // something was overdue, and the peers are told
      listen(token, std::min({until, next_check, due}), true);
      is_idle = false;
      last_work = clock.now() - policy_.spin_ns - policy_.yield_ns;
    }
  }
}

// Blocks in the poll without the token. What arrived is handled before anything else: whoever
// listened may be about to leave, and events are reported once.
void Driver::listen(std::unique_lock<std::mutex>& token, TimeNs until, bool is_caller) {
  const TimeNs timeout = until == kNever ? -1 : std::max<TimeNs>(0, until - engine_.clock().now());
  ++blocked_;
  blocked_callers_ += is_caller ? 1 : 0;
  token.unlock();
  std::vector<WireEvent> arrived;
  wires_.poll(timeout, arrived);
  contenders_.fetch_add(1, std::memory_order_relaxed);
  token.lock();
  contenders_.fetch_sub(1, std::memory_order_relaxed);
  --blocked_;
  blocked_callers_ -= is_caller ? 1 : 0;
  engine_.add_events(arrived);
  pass(false);
}

void Driver::run_thread() {
  name_this_thread("mccl-engine");
  std::unique_lock token(token_);
  while (!is_stopping_) {
    // Off the sockets while callers drive, and for a while after: they usually come back.
    const uint64_t seen_visits = visits_;
    work_.wait_for(token, std::chrono::nanoseconds(kGraceNs),
                   [this] { return is_stopping_ || (has_left_work_ && callers_ == 0); });
    // At the sockets until a caller comes.
    bool has_listened = false;
    while (!is_stopping_ && callers_ == 0 && (visits_ == seen_visits || has_left_work_)) {
      has_left_work_ = false;
      if (pass(false)) {
        if (contenders_.load(std::memory_order_relaxed) > 0) give_way(token);
        continue;
      }
      TimeNs until = engine_.expire();
      pass(true);
      is_listening_idle_ = !engine_.has_work();
      if (!is_listening_idle_) until = std::min(until, engine_.clock().now() + kSliceNs);
      listen(token, until, false);
      has_listened = true;
      is_listening_idle_ = false;
    }
    // A caller that sleeps at the sockets: what this thread took in may wait for company, and the
    // wake-up that brought it here may have been the caller's.
    if (has_listened && blocked_callers_ > 0) {
      pass(true);
      wires_.wake();
    }
  }
  const TimeNs until = deadline_after(engine_.clock().now(), kFarewellNs);
  pass(true);
  while (engine_.transport().has_due_output() && engine_.clock().now() < until)
    listen(token, std::min(until, engine_.clock().now() + kSliceNs), false);
}

}  // namespace mccl
