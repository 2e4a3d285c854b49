#include "completion_thread.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace mccl {
namespace {

// A task that has waited so long waits behind one that blocks: longer than an ordinary callback.
constexpr std::chrono::milliseconds kPatience{20};
// Tasks that wait for one another, one inside the other; more are a program that never ends.
constexpr size_t kThreadsMax = 64;

}  // namespace

struct CompletionThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;  // for the threads that run tasks
  std::condition_variable blocked;  // for the one that watches them
  std::deque<std::function<void()>> tasks;
  std::vector<std::thread> threads;  // the watching one first
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
}

void CompletionThread::post(std::function<void()> task) {
  const std::lock_guard lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  (queue_->idle_count > 0 ? queue_->changed : queue_->blocked).notify_one();
}

void CompletionThread::run(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  while (true) {
    ++queue.idle_count;
    queue.changed.wait(lock, [&] { return queue.is_stopping || !queue.tasks.empty(); });
    --queue.idle_count;
    if (queue.tasks.empty()) return;
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
}

void CompletionThread::watch(const std::shared_ptr<Queue>& queue) {
  std::unique_lock lock(queue->mutex);
  while (!queue->is_stopping) {
    queue->blocked.wait(lock, [&] {
      return queue->is_stopping || (!queue->tasks.empty() && queue->idle_count == 0);
    });
    const uint64_t seen_count = queue->taken_count;
    const bool is_moving = queue->blocked.wait_for(
        lock, kPatience, [&] { return queue->is_stopping || queue->taken_count != seen_count; });
    if (!is_moving && queue->threads.size() < kThreadsMax)
      queue->threads.emplace_back([queue] { run(*queue); });
  }
}

}  // namespace mccl
