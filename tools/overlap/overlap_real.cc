#include "overlap/overlap_real.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "mccl/communicator.h"
#include "mccl/store.h"
#include "sim/device_thread.h"

namespace mccl {
namespace {

// One rank: its host is the thread that calls run().
class RealRank {
 public:
  RealRank(const StepRequest& request, StepMode mode, Communicator& communicator)
      : request_(request),
        mode_(mode),
        communicator_(communicator),
        bucket_elements_(static_cast<size_t>(request.bucket_bytes) / sizeof(float)),
        buckets_(static_cast<size_t>(request.bucket_count) * bucket_elements_, 1.0F),
        staging_(mode == StepMode::StagedAndWaited || mode == StepMode::CopyAfterwards
                     ? bucket_elements_
                     : 0),
        works_(static_cast<size_t>(request.bucket_count)) {
    report_.ready_ns.resize(works_.size());
    report_.averaged_ns.resize(works_.size());
  }

  Status run() {
    // Connections exist, and all ranks begin together.
    for (int round = 0; round < 2; ++round) MCCL_RETURN_IF_ERROR(wait_for(communicator_.barrier()));
    begin_ns_ = clock().now();
    if (mode_ != StepMode::Communication && request_.forward_ns > 0)
      encode("forward", request_.forward_ns, {});
    for (size_t index = 0; index < works_.size(); ++index) MCCL_RETURN_IF_ERROR(do_bucket(index));
    device().commit();
    if (mode_ == StepMode::Serialized || mode_ == StepMode::CopyAfterwards) drain();
    if (mode_ == StepMode::Serialized)
      for (size_t index = 0; index < works_.size(); ++index) MCCL_RETURN_IF_ERROR(post(index));
    if (mode_ == StepMode::CopyAfterwards)
      for (size_t index = 0; index < works_.size(); ++index) MCCL_RETURN_IF_ERROR(stage(index));
    return optimize();
  }

  StepReport report() {
    report_.device_waits = static_cast<int>(device().counts().device_waits);
    return report_;
  }

 private:
  sim::Device& device() { return executor_.device(); }
  const Clock& clock() const { return executor_.clock(); }
  TimeNs now() const { return clock().now() - begin_ns_; }
  float* bucket(size_t index) { return buckets_.data() + index * bucket_elements_; }
  bool is_handed_off() const { return mode_ == StepMode::Overlapped; }

  Status do_bucket(size_t index) {
    if (mode_ != StepMode::Communication)
      encode("backward", request_.backward_ns / request_.bucket_count, [this, index] {
        report_.ready_ns[index] = now();
        report_.compute_end_ns = now();
      });
    if (mode_ == StepMode::DrainPerBucket) drain();
    if (mode_ == StepMode::StagedAndWaited) return stage(index);
    const bool is_posted = mode_ == StepMode::Communication || mode_ == StepMode::Overlapped ||
                           mode_ == StepMode::DrainPerBucket;
    return is_posted ? post(index) : Status::ok();
  }

  // Copy out, average, copy back; the host waits for each.
  Status stage(size_t index) {
    const size_t bytes = bucket_elements_ * sizeof(float);
    encode("copy", 0, [this, index, bytes] { std::memcpy(staging_.data(), bucket(index), bytes); });
    drain();
    MCCL_RETURN_IF_ERROR(post(index, staging_.data()));
    MCCL_RETURN_IF_ERROR(wait_for_bucket(index));
    encode("copy", 0, [this, index, bytes] { std::memcpy(bucket(index), staging_.data(), bytes); });
    drain();
    report_.copies += 2;
    return Status::ok();
  }

  Status optimize() {
    for (size_t index = 0; index < works_.size(); ++index) {
      if (works_[index] == nullptr) continue;
      if (is_handed_off()) {
        const Result<bool> is_ordered = works_[index]->wait_on_stream();
        if (!is_ordered.is_ok()) return is_ordered.status();
      } else {
        MCCL_RETURN_IF_ERROR(wait_for_bucket(index));
      }
    }
    encode("optimizer", 0, [this] { report_.step_ns = now(); });
    device().synchronize();  // the step is over: not a wait of the step's
    for (const std::shared_ptr<Work>& work : works_)
      if (work != nullptr) MCCL_RETURN_IF_ERROR(work->wait());
    return Status::ok();
  }

  void encode(const char* name, TimeNs duration_ns, std::function<void()> run) {
    device().encode({.name = name, .duration_ns = duration_ns, .run = std::move(run)});
  }

  void drain() {
    const TimeNs since_ns = now();
    device().synchronize();
    count_host_wait(since_ns);
  }

  Status wait_for_bucket(size_t index) {
    if (works_[index]->is_done()) return works_[index]->status();
    const TimeNs since_ns = now();
    MCCL_RETURN_IF_ERROR(works_[index]->wait());
    count_host_wait(since_ns);
    return Status::ok();
  }

  void count_host_wait(TimeNs since_ns) {
    ++report_.host_waits;
    report_.host_wait_ns += now() - since_ns;
  }

  static Status wait_for(Result<std::shared_ptr<Work>> work) {
    return work.is_ok() ? work.value()->wait() : work.status();
  }

  Status post(size_t index) { return post(index, bucket(index)); }
  Status post(size_t index, float* data) {
    Result<std::shared_ptr<Work>> work = communicator_.all_reduce(
        data, data, static_cast<int64_t>(bucket_elements_), DataType::Float32, ReduceOp::Avg,
        {.on_complete = [this, index](const Status&) { report_.averaged_ns[index] = now(); },
         .hand_off = is_handed_off() ? device().hand_off() : nullptr});
    if (work.is_ok()) works_[index] = std::move(work).value();
    return work.status();
  }

  const StepRequest& request_;
  StepMode mode_;
  Communicator& communicator_;
  size_t bucket_elements_;
  std::vector<float> buckets_;
  std::vector<float> staging_;
  std::vector<std::shared_ptr<Work>> works_;
  sim::DeviceThread executor_{{}};
  TimeNs begin_ns_ = 0;
  StepReport report_;
};

// What the ranks' threads leave behind.
struct Outcome {
  std::mutex mutex;
  Status failure;
  StepReport first;
  std::vector<TimeNs> rank_ns;
};

Status run_rank(const StepRequest& request, StepMode mode, Store& store, int rank,
                Outcome& outcome) {
  EndpointOptions options;
  options.settings = {{"MCCL_SOCKET_IFNAME", "127.0.0.1"}, {"MCCL_LOG", "warning"}};
  Result<std::unique_ptr<Endpoint>> endpoint = Endpoint::create(options);
  if (!endpoint.is_ok()) return endpoint.status();
  Result<std::unique_ptr<Communicator>> communicator =
      Communicator::create(*endpoint.value(), store, rank, request.rank_count, {});
  if (!communicator.is_ok()) return communicator.status();
  RealRank step(request, mode, *communicator.value());
  MCCL_RETURN_IF_ERROR(step.run());
  const std::lock_guard lock(outcome.mutex);
  outcome.rank_ns[static_cast<size_t>(rank)] = step.report().step_ns;
  if (rank == 0) outcome.first = step.report();
  return Status::ok();
}

}  // namespace

Result<StepReport> run_real_step(const StepRequest& request, StepMode mode) {
  if (mode == StepMode::StagedOwnQueue)
    return Status(StatusCode::Unsupported, "copies on a queue of their own need a device");
  MCCL_RETURN_IF_ERROR(check_step(request));
  const std::shared_ptr<Store> store = make_memory_store();
  Outcome outcome;
  outcome.rank_ns.resize(static_cast<size_t>(request.rank_count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < request.rank_count; ++rank)
    threads.emplace_back([&, rank] {
      const Status status = run_rank(request, mode, *store, rank, outcome);
      const std::lock_guard lock(outcome.mutex);
      if (outcome.failure.is_ok()) outcome.failure = status;
    });
  for (std::thread& thread : threads) thread.join();
  MCCL_RETURN_IF_ERROR(outcome.failure);
  StepReport report = std::move(outcome.first);
  report.rank_ns = std::move(outcome.rank_ns);
  report.step_ns = *std::max_element(report.rank_ns.begin(), report.rank_ns.end());
  return report;
}

}  // namespace mccl
