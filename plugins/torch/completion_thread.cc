#include "completion_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace mccl {

struct CompletionThread::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool is_stopping = false;
};

CompletionThread::CompletionThread()
    : queue_(std::make_shared<Queue>()), thread_([queue = queue_] { run(*queue); }) {}

CompletionThread::~CompletionThread() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->is_stopping = true;
  }
  queue_->changed.notify_one();
  if (thread_.get_id() == std::this_thread::get_id())
    thread_.detach();  // it cannot wait for itself
  else
    thread_.join();
}

void CompletionThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->tasks.push_back(std::move(task));
  }
  queue_->changed.notify_one();
}

void CompletionThread::run(Queue& queue) {
  std::unique_lock lock(queue.mutex);
  while (true) {
    queue.changed.wait(lock, [&] { return queue.is_stopping || !queue.tasks.empty(); });
    if (queue.tasks.empty()) return;
    std::function<void()> task = std::move(queue.tasks.front());
    queue.tasks.pop_front();
    lock.unlock();
    task();
    task = {};  // what it holds (tensors) is dropped here, not under the lock
    lock.lock();
  }
}

}  // namespace mccl
