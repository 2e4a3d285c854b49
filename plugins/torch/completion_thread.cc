#include "completion_thread.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread_name.h"

namespace mccl {
namespace {

// A task that has waited so long waits behind one that blocks: longer than an ordinary callback.
constexpr std::chrono::milliseconds kPatience{20};
// Tasks that wait for one another, one inside the other; more are a program that never ends.
constexpr size_t kHelpersMax = 64;
constexpr const char* kThreadName = "mccl-completion";

}  // namespace

struct CompletionThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;  // for the threads that run tasks
  std::condition_variable blocked;  // for the one that watches them
  std::deque<std::function<void()>> tasks;
  std::vector<std::thread> threads;   // the one that watches, and the one that always runs tasks
  std::set<std::thread::id> helpers;  // run tasks while there are any, then end
  std::condition_variable helper_ended;
  size_t helper_count = 0;  // those that are about to enter `helpers` as well
  size_t idle_count = 0;
  uint64_t taken_count = 0;
  bool is_stopping = false;
};

CompletionThread::CompletionThread() : queue_(std::make_shared<Queue>()) {
  const std::lock_guard lock(queue_->mutex);
  queue_->threads.emplace_back([queue = queue_] { watch(queue); });
  queue_->threads.emplace_back([queue = queue_] { run(*queue); });
}

CompletionThread::~CompletionThread() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->is_stopping = true;
    threads.swap(queue_->threads);
  }
  queue_->changed.notify_all();
  queue_->blocked.notify_all();
  for (std::thread& thread : threads)
    if (thread.get_id() == std::this_thread::get_id())
      thread.detach();  // it cannot wait for itself
    else
      thread.join();
  std::unique_lock lock(queue_->mutex);
  const size_t own_count = queue_->helpers.count(std::this_thread::get_id());
  queue_->helper_ended.wait(lock, [&] { return queue_->helper_count == own_count; });
}

void CompletionThread::post(std::function<void()> task) {
  const std::lock_guard lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  (queue_->idle_count > 0 ? queue_->changed : queue_->blocked).notify_one();
}

void CompletionThread::run(Queue& queue) {
  name_this_thread(kThreadName);
  std::unique_lock lock(queue.mutex);
  while (true) {
    ++queue.idle_count;
    queue.changed.wait(lock, [&] { return queue.is_stopping || !queue.tasks.empty(); });
    --queue.idle_count;
    if (queue.tasks.empty()) return;
    run_one(queue, lock);
  }
}

void CompletionThread::run_one(Queue& queue, std::unique_lock<std::mutex>& lock) {
  std::function<void()> task = std::move(queue.tasks.front());
  queue.tasks.pop_front();
  ++queue.taken_count;
  // Two posts may both have notified this thread while it was still waking.
  if (!queue.tasks.empty()) queue.blocked.notify_one();
  lock.unlock();
  task();
  task = {};  // what it holds (tensors) is dropped here, not under the lock
  lock.lock();
}

void CompletionThread::help(Queue& queue) {
  name_this_thread(kThreadName);
  std::unique_lock lock(queue.mutex);
  queue.helpers.insert(std::this_thread::get_id());
  while (!queue.tasks.empty()) run_one(queue, lock);
  queue.helpers.erase(std::this_thread::get_id());
  --queue.helper_count;
  queue.helper_ended.notify_all();
}

void CompletionThread::watch(const std::shared_ptr<Queue>& queue) {
  name_this_thread("mccl-watch");
  std::unique_lock lock(queue->mutex);
  while (!queue->is_stopping) {
    queue->blocked.wait(lock, [&] {
      return queue->is_stopping || (!queue->tasks.empty() && queue->idle_count == 0);
    });
    const uint64_t seen_count = queue->taken_count;
    const bool is_moving = queue->blocked.wait_for(
        lock, kPatience, [&] { return queue->is_stopping || queue->taken_count != seen_count; });
    if (is_moving || queue->tasks.empty() || queue->helper_count == kHelpersMax) continue;
    ++queue->helper_count;
    std::thread([queue] { help(*queue); }).detach();
  }
}

}  // namespace mccl
