#include "metal/fake_gpu.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace mccl::fake_metal {

void Violations::report(std::string text) {
  const std::lock_guard lock(mutex_);
  texts_.push_back(std::move(text));
}

std::vector<std::string> Violations::list() const {
  const std::lock_guard lock(mutex_);
  return texts_;
}

uint64_t Event::value() const {
  const std::lock_guard lock(mutex_);
  return value_;
}

void Event::raise(uint64_t value) {
  std::vector<Listener> woken;
  {
    const std::lock_guard lock(mutex_);
    if (value <= value_) {
      violations_.report("an event of value " + std::to_string(value_) + " was raised to " +
                         std::to_string(value));
      return;
    }
    value_ = value;
    const auto sleeping = std::partition(listeners_.begin(), listeners_.end(),
                                         [&](const Listener& one) { return one.value > value; });
    std::move(sleeping, listeners_.end(), std::back_inserter(woken));
    listeners_.erase(sleeping, listeners_.end());
  }
  for (const Listener& listener : woken) listener.block(value);
}

void Event::notify(uint64_t value, std::function<void(uint64_t)> block, IfReached if_reached) {
  {
    const std::lock_guard lock(mutex_);
    if (value_ < value) {
      listeners_.push_back({value, std::move(block)});
      return;
    }
  }
  if (if_reached == IfReached::CallsBlock) block(value);
}

// The commands of one command buffer of a queue, until its commit.
class QueueSink final : public CommandSink {
 public:
  QueueSink(Gpu& gpu, size_t queue_index) : gpu_(gpu), queue_index_(queue_index) {}

  void encode(Command command) override { commands_.push_back(std::move(command)); }

  void commit() override {
    ++gpu_.commit_count;
    const std::lock_guard lock(gpu_.mutex_);
    std::deque<Command>& queue = gpu_.queues_[queue_index_];
    std::move(commands_.begin(), commands_.end(), std::back_inserter(queue));
    commands_.clear();
  }

 private:
  Gpu& gpu_;
  const size_t queue_index_;
  std::vector<Command> commands_;
};

size_t Gpu::add_queue() {
  const std::lock_guard lock(mutex_);
  queues_.emplace_back();
  return queues_.size() - 1;
}

std::unique_ptr<CommandSink> Gpu::make_sink(size_t queue_index) {
  return std::make_unique<QueueSink>(*this, queue_index);
}

bool Gpu::run_one(size_t queue_index) {
  Command command;
  {
    const std::lock_guard lock(mutex_);
    std::deque<Command>& queue = queues_[queue_index];
    if (queue.empty() || !queue.front().is_ready()) return false;
    command = std::move(queue.front());
    queue.pop_front();
  }
  if (command.run) command.run();
  return true;
}

void Gpu::run() {
  bool has_run = true;
  while (has_run) {
    has_run = false;
    size_t queue_count = 0;
    {
      const std::lock_guard lock(mutex_);
      queue_count = queues_.size();
    }
    for (size_t index = 0; index < queue_count; ++index) has_run |= run_one(index);
  }
}

}  // namespace mccl::fake_metal
