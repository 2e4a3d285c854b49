// What stands behind the stand-ins for Metal's objects, in plain C++: events, queues of committed
// commands, and what they find broken. Metal's own rules are here as far as the hand-off leans on
// them: queues run in order and only what was committed; a queue stops at a wait until the value is
// there; events only grow.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mccl::fake_metal {

// Rules that were broken, in words. Any thread.
class Violations {
 public:
  void report(std::string text);
  std::vector<std::string> list() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Behind MTLSharedEvent. Any thread.
class Event {
 public:
  explicit Event(Violations& violations) : violations_(violations) {}

  uint64_t value() const;
  // A value that is not larger than the present one is a violation: each has one meaning.
  void raise(uint64_t value);
  // Calls `block` when the value is reached, by whoever raises it. For a value that is there
  // already Metal promises nothing: `if_reached` chooses.
  enum class IfReached : uint8_t { IsSilent, CallsBlock };
  void notify(uint64_t value, std::function<void(uint64_t)> block, IfReached if_reached);

 private:
  struct Listener {
    uint64_t value;
    std::function<void(uint64_t)> block;
  };
  Violations& violations_;
  mutable std::mutex mutex_;
  uint64_t value_ = 0;
  std::vector<Listener> listeners_;
};

// Waits, then runs; either may be missing.
struct Command {
  Event* awaited = nullptr;
  uint64_t value = 0;
  std::function<void()> run = {};

  bool is_ready() const { return awaited == nullptr || awaited->value() >= value; }
};

// Where one command buffer's commands go.
class CommandSink {
 public:
  virtual ~CommandSink() = default;
  virtual void encode(Command command) = 0;
  virtual void commit() = 0;
};

// Executes what was committed, without a thread: run() does everything that can be done now.
class Gpu {
 public:
  Violations& violations() { return violations_; }

  // Of its own order.
  size_t add_queue();
  std::unique_ptr<CommandSink> make_sink(size_t queue_index);

  // Any thread, one at a time.
  void run();

  // What a test may set: called at the beginning of notifyListener, and what that does then.
  std::function<void()> on_notify = [] {};
  Event::IfReached if_reached = Event::IfReached::IsSilent;

  std::atomic<size_t> event_count = 0;   // shared events ever made
  std::atomic<size_t> commit_count = 0;  // of command buffers

 private:
  friend class QueueSink;
  bool run_one(size_t queue_index);

  Violations violations_;
  std::mutex mutex_;  // guards the queues
  std::vector<std::deque<Command>> queues_;
};

}  // namespace mccl::fake_metal
