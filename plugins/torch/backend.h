// The c10d back end "mccl": turns tensors into calls of a Communicator. Thin: layouts, programs,
// errors and waiting live below.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "mccl/communicator.h"
#include "torch_work.h"

namespace mccl {

// What the core of the plug-in needs of the interpreter and does not include: supplied by
// bindings.cc.
struct InterpreterHooks {
  // What a signal handler raises (Ctrl-C), or null. Any thread, takes the lock itself.
  TakeInterrupt take_interrupt;
  // Runs the function without the interpreter lock, if this thread holds it.
  std::function<void(const std::function<void()>&)> without_lock;
};

class Backend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("mccl", limit) {}
  };

  // Meets the other ranks through the store: blocks until all are there. Called without the
  // interpreter lock. `master_address` may be empty.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options, const std::string& master_address,
          InterpreterHooks hooks);
  ~Backend() override;

  const std::string getBackendName() const override { return "mccl"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collective_count_; }

  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

  // Fails everything in flight, here and at the peers. Any thread, idempotent, does not block.
  void abort() override;
  // Leaves the group; nothing works afterwards. Bounded. Idempotent.
  void shutdown() override;

  CommunicatorStats stats();
  std::string explain(Collective collective, int64_t bytes);

 private:
  struct Shared;  // the process-wide endpoint and completion thread
  using Post = std::function<Result<std::shared_ptr<mccl::Work>>(Communicator&, CallOptions)>;

  // Makes the TorchWork, posts, and ties the two together. `is_async` false: the caller waits next.
  WorkPointer post(c10d::OpType type, const char* title, Tensors inputs, Tensors outputs,
                   std::vector<CopyBack> copies, std::chrono::milliseconds timeout, bool is_async,
                   const Post& post);
  WorkPointer gather_blocks(c10d::OpType type, const char* title, const at::Tensor& input,
                            Tensors blocks, Tensors outputs, const c10d::AllgatherOptions& options);
  static std::shared_ptr<Shared> share(const std::string& master_address);

  InterpreterHooks hooks_;
  c10::intrusive_ptr<Options> options_;
  std::shared_ptr<Shared> shared_;
  std::mutex mutex_;  // guards communicator_ against shutdown() from another thread
  std::shared_ptr<Communicator> communicator_;
  std::atomic<uint64_t> collective_count_{0};
};

}  // namespace mccl
