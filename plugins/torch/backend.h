// The c10d back end "mccl": turns tensors into calls of a Communicator. Thin: layouts live in
// staging.h, names of types and operations in reduction.h; programs, errors and waiting below. Life
// and posting: backend.cc; the calls: collectives.cc, sparse.cc, point_to_point.cc.
#pragma once

#include <unistd.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "device_works.h"
#include "mccl/communicator.h"
#include "mccl/wire.h"
#include "staging.h"
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

// Copies made because of layouts or of a PREMUL_SUM's factor.
struct StagingStats {
  uint64_t calls = 0;
  uint64_t bytes = 0;
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
  // A copy: torch's splitting of groups writes into what it gets.
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override;
  // Of calls from now on that name no timeout of their own.
  void setTimeout(std::chrono::milliseconds timeout) override {
    limit_ns(timeout);
    timeout_ = timeout;
  }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collective_count_; }
  c10d::ErrorType getError() override { return *error_; }

  using Tensors = std::vector<at::Tensor>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Splits = std::vector<int64_t>;
  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  // Blocks until all ranks have called it: how much there is to move is not known before.
  WorkPointer allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer allreduce_coalesced(Tensors& tensors,
                                  const c10d::AllreduceCoalescedOptions& options) override;
  WorkPointer reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::AllgatherOptions& options) override;
  WorkPointer _allgather_base(at::Tensor& output, at::Tensor& input,
                              const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                  const c10d::AllgatherOptions& options) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) override;
  WorkPointer gather(std::vector<Tensors>& outputs, Tensors& inputs,
                     const c10d::GatherOptions& options) override;
  WorkPointer scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                      const c10d::ScatterOptions& options) override;
  WorkPointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                             const c10d::ReduceScatterOptions& options) override;
  WorkPointer _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                              const c10d::ReduceScatterOptions& options) override;
  WorkPointer alltoall_base(at::Tensor& output, at::Tensor& input, Splits& output_splits,
                            Splits& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPointer alltoall(Tensors& outputs, Tensors& inputs,
                       const c10d::AllToAllOptions& options) override;
  // A custom collective by the name of its program; see Communicator::custom. The tensors hold the
  // chunks that the contract gives this rank; `chunk_elements` is needed where it gives none.
  WorkPointer custom(const std::string& program, const at::Tensor& input, at::Tensor& output,
                     ReduceOp op, bool is_async, std::optional<int64_t> chunk_elements);
  WorkPointer send(Tensors& tensors, int destination, int tag) override;
  WorkPointer recv(Tensors& tensors, int source, int tag) override;
  WorkPointer recvAnysource(Tensors& tensors, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;
  // Throws on every rank when one is not there within the limit; the group has then failed.
  void monitoredBarrier(const c10d::BarrierOptions& options, bool waits_for_all) override;

  // Calls of a thread between the two start at once; the Work of the end stands for all. Where the
  // last batch had no end, since an error cut it short, its calls complete by themselves. Not
  // advertised: torch would then run batch_isend_irecv in a context that it does not leave when a
  // call is refused, and its messages need no batch.
  bool supportsCoalescing() const override { return false; }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;

  // Fails everything in flight, here and at the peers. Any thread, idempotent, does not block.
  void abort() override { abort("abort() was called"); }
  // The same, with what the peers are to report.
  void abort(const std::string& reason);
  // Leaves the group; nothing works afterwards. Bounded. Idempotent. Also from a callback of a
  // Future.
  void shutdown() override;

  // Around a fork of this process, on the thread that forks, without the interpreter lock in the
  // parent: the child must not keep the parent's connections open.
  static void begin_fork();
  static void end_fork(ForkSide side);

  CommunicatorStats stats();
  StagingStats staging_stats() const { return {staged_calls_, staged_bytes_}; }
  HandOffStats hand_off_stats() const { return device_works_->stats(); }
  // Without words only the rules that depend on the size are asked.
  std::string explain(Collective collective, int64_t bytes,
                      const std::optional<Communicator::CallWords>& words);
  // Of the whole process: Endpoint::write_dump.
  std::string write_dump(const std::string& path);

 private:
  using TorchWorkPointer = c10::intrusive_ptr<TorchWork>;
  struct Shared;   // the process-wide endpoint and completion thread
  struct Process;  // where it is found
  struct Living {
    std::shared_ptr<Shared> shared;  // first: outlives the communicator, which refers to it
    std::shared_ptr<Communicator> communicator;
  };
  // What torch knows a call by.
  struct Title {
    c10d::OpType type;
    const char* text;
    std::chrono::milliseconds timeout;
    bool is_async;  // false: the caller waits next
  };
  // A call that has passed every check and waits to be posted.
  struct Call {
    Title title;
    Staging staging;
    Tensors outputs;  // the Future's value
    std::function<Result<std::shared_ptr<mccl::Work>>(Communicator&, DataType, CallOptions)> start;
    std::function<void()> finish = {};  // makes the outputs out of what came, if need be
  };

  // Both empty after shutdown().
  Living living();
  // As above; throws after shutdown().
  Living check_living();
  // The memory of a call; its arguments are Staging's.
  Staging stage(const char* call, at::ScalarType type, Elements elements) const {
    return {call, type, elements, is_unified_in_place_};
  }
  // Makes the TorchWork, starts the operation, and ties the two together.
  TorchWorkPointer post(Call call);
  // One Work over all. No call is made before all have passed their checks.
  WorkPointer post_all(c10d::OpType type, std::vector<Call> calls);
  Call reduce_one(const Title& title, const at::Tensor& tensor, const Reduction& reduction) const;
  Call gather_blocks(const Title& title, const at::Tensor& input, const Tensors& blocks) const;
  Call gather_into(const Title& title, const at::Tensor& output, const at::Tensor& input) const;
  Call scatter_sum(const Title& title, const at::Tensor& output, const at::Tensor& input,
                   const Reduction& reduction) const;
  // ValueError, in both numberings, unless it is a rank of this group.
  void check_member(const char* what, int64_t rank) const;
  // As above, and not this rank.
  void check_peer(const char* what, int64_t rank) const;
  // Of a call, in nanoseconds; ValueError for a negative one.
  int64_t limit_of(std::chrono::milliseconds timeout) const;
  WorkPointer combine(c10d::OpType type, std::vector<TorchWorkPointer> parts);
  void note_staging(const Call& call, Shared& shared);
  // As share(); where that fails, the others in `store` hear of it.
  static std::shared_ptr<Shared> share_or_decline(const std::string& master_address,
                                                  const c10::intrusive_ptr<c10d::Store>& store,
                                                  int rank, int size, const Options& options);
  static std::shared_ptr<Shared> share(const std::string& master_address);

  InterpreterHooks hooks_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::shared_ptr<Shared> shared_;
  bool is_unified_in_place_ = true;
  std::shared_ptr<DeviceWorks> device_works_;
  const pid_t pid_ = getpid();
  std::mutex mutex_;  // guards what follows: shutdown() may come from another thread
  std::shared_ptr<Communicator> communicator_;
  // By thread, since its startCoalescing().
  std::map<std::thread::id, std::vector<TorchWorkPointer>> coalescing_;
  std::atomic<uint64_t> collective_count_{0};
  std::atomic<uint64_t> staged_calls_{0};
  std::atomic<uint64_t> staged_bytes_{0};
  // Shared with operations in flight, which may outlive this object.
  std::shared_ptr<std::atomic<c10d::ErrorType>> error_ =
      std::make_shared<std::atomic<c10d::ErrorType>>(c10d::ErrorType::SUCCESS);
};

// The only tensor of a list that c10d made for many devices: ValueError otherwise.
const at::Tensor& only_tensor(const std::vector<at::Tensor>& tensors, const char* call);

}  // namespace mccl
