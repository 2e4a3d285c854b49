// Several hand-offs that one call has to wait for, as one: of tensors that are staged each on its
// own. For a single call.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "mccl/device.h"

namespace mccl {

class HandOffGroup final : public HandOff {
 public:
  explicit HandOffGroup(std::vector<std::shared_ptr<HandOff>> parts) : parts_(std::move(parts)) {}

  Result<uint64_t> signal_producer() override {
    for (const std::shared_ptr<HandOff>& part : parts_) {
      Result<uint64_t> ticket = part->signal_producer();
      if (!ticket.is_ok()) {
        raise_consumer(0);
        return ticket.status();
      }
      tickets_.push_back(ticket.value());
    }
    return 0;
  }

  Status wait_consumer(uint64_t) override {
    for (size_t index = 0; index < tickets_.size(); ++index)
      MCCL_RETURN_IF_ERROR(parts_[index]->wait_consumer(tickets_[index]));
    return Status::ok();
  }

  bool await_producer(uint64_t, std::function<void()> wake) override {
    // One more than there are parts, so that `wake` is not called before this returns false.
    struct Progress {
      std::atomic<size_t> left;
      std::function<void()> wake;
    };
    const auto progress = std::make_shared<Progress>();
    progress->left = tickets_.size() + 1;
    progress->wake = std::move(wake);
    const auto arrive = [progress] { return progress->left.fetch_sub(1) == 1; };
    for (size_t index = 0; index < tickets_.size(); ++index)
      if (parts_[index]->await_producer(tickets_[index], [progress, arrive] {
            if (arrive()) progress->wake();
          }))
        arrive();
    return arrive();
  }

  void raise_consumer(uint64_t) override {
    for (size_t index = 0; index < tickets_.size(); ++index)
      parts_[index]->raise_consumer(tickets_[index]);
  }

 private:
  const std::vector<std::shared_ptr<HandOff>> parts_;
  std::vector<uint64_t> tickets_;
};

}  // namespace mccl
