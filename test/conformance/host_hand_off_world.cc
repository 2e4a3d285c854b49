// The shortest hand-off that passes the suite: a queue of functions and two sets of tickets. Read
// it first; it is also what the suite's own tests are tried on.
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "conformance/hand_off_world.h"

namespace mccl {
namespace {

class HostStream final : public HandOff {
 public:
  struct Command {
    std::function<void()> run;
    uint64_t awaited_ticket = 0;  // 0: none
  };

  void encode(Command command) {
    const std::lock_guard lock(mutex_);
    open_.push_back(std::move(command));
  }

  void commit() {
    const std::lock_guard lock(mutex_);
    std::move(open_.begin(), open_.end(), std::back_inserter(committed_));
    open_.clear();
  }

  void run() {
    while (true) {
      Command command;
      {
        const std::lock_guard lock(mutex_);
        if (committed_.empty() || in_flight_.contains(committed_.front().awaited_ticket)) return;
        command = std::move(committed_.front());
        committed_.pop_front();
      }
      if (command.run) command.run();
    }
  }

  Result<uint64_t> signal_producer() override {
    uint64_t ticket = 0;
    {
      const std::lock_guard lock(mutex_);
      ticket = ++last_ticket_;
      in_flight_.insert(ticket);
    }
    encode({[this, ticket] { produce(ticket); }});
    commit();
    return ticket;
  }

  Status wait_consumer(uint64_t ticket) override {
    encode({{}, ticket});
    return Status::ok();
  }

  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    if (produced_ >= ticket) return true;
    wakes_[ticket] = std::move(wake);
    return false;
  }

  void raise_consumer(uint64_t ticket) override {
    const std::lock_guard lock(mutex_);
    in_flight_.erase(ticket);
  }

 private:
  void produce(uint64_t ticket) {
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      produced_ = ticket;
      if (const auto found = wakes_.find(ticket); found != wakes_.end()) {
        wake = std::move(found->second);
        wakes_.erase(found);
      }
    }
    if (wake) wake();
  }

  std::mutex mutex_;
  std::deque<Command> open_;
  std::deque<Command> committed_;
  uint64_t last_ticket_ = 0;
  uint64_t produced_ = 0;
  std::set<uint64_t> in_flight_;
  std::map<uint64_t, std::function<void()>> wakes_;
};

class HostHandOffWorld final : public HandOffWorld {
 public:
  int64_t* device_cell(size_t index) override { return &cells_[index]; }
  Call begin_call(size_t cell) override { return {stream_, &cells_[cell]}; }
  void encode(std::function<void()> kernel) override { stream_->encode({std::move(kernel)}); }
  void commit() override { stream_->commit(); }
  void run() override { stream_->run(); }
  std::vector<std::string> violations() override { return {}; }

 private:
  std::shared_ptr<HostStream> stream_ = std::make_shared<HostStream>();
  std::vector<int64_t> cells_ = std::vector<int64_t>(kCellCount, 0);
};

INSTANTIATE_TEST_SUITE_P(Host, HandOffTest,
                         ::testing::Values(HandOffKind{
                             "host", [] { return std::make_unique<HostHandOffWorld>(); }}));

}  // namespace
}  // namespace mccl
