#include "overlap/overlap_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "comm/simulated_group.h"
#include "sim/device.h"

namespace mccl {
namespace {

constexpr std::array<std::string_view, 8> kModeNames = {
    "compute",           "communication",     "overlapped",       "serialized",
    "staged, own queue", "staged and waited", "drain per bucket", "copy afterwards"};

constexpr int64_t kElementBytes = sizeof(float);
constexpr int64_t kMemoryMax = int64_t{4} << 30;

bool computes(StepMode mode) {
  return mode != StepMode::Communication;
}

bool is_handed_off(StepMode mode) {
  return mode == StepMode::Overlapped || mode == StepMode::StagedOwnQueue;
}

// A hand-off through copies on a queue of their own: the engine gets the bucket a copy later, and
// so does the device.
class CopyingHandOff final : public HandOff {
 public:
  CopyingHandOff(std::shared_ptr<HandOff> stream, sim::World& world, int rank, TimeNs copy_ns)
      : stream_(std::move(stream)), world_(world), rank_(rank), copy_ns_(copy_ns) {}

  Result<uint64_t> signal_producer() override { return stream_->signal_producer(); }
  Status wait_consumer(uint64_t ticket) override { return stream_->wait_consumer(ticket); }
  bool await_producer(uint64_t ticket, std::function<void()> wake) override {
    const auto copy = [this, wake = std::move(wake)] { later(wake); };
    if (stream_->await_producer(ticket, copy)) copy();
    return false;
  }
  void raise_consumer(uint64_t ticket) override {
    later([this, ticket] { stream_->raise_consumer(ticket); });
  }

 private:
  void later(std::function<void()> action) {
    world_.at(world_.clock().now() + copy_ns_, rank_, std::move(action));
  }

  std::shared_ptr<HandOff> stream_;
  sim::World& world_;
  int rank_;
  TimeNs copy_ns_;
};

// One rank's host and device. The host runs its steps one after the other; a step may first wait
// for something, which is the host's waiting.
class RankStep {
 public:
  RankStep(const StepRequest& request, StepMode mode, SimulatedGroup& group, int rank,
           float* buckets)
      : request_(request),
        mode_(mode),
        group_(group),
        rank_(rank),
        buckets_(buckets),
        copy_ns_(static_cast<TimeNs>(static_cast<double>(request.bucket_bytes) /
                                     request.copy_bytes_per_second * 1e9)),
        device_({}, group.world().clock(),
                [this](TimeNs time_ns) {
                  group_.world().at(time_ns, rank_, [this] { device_.run(); });
                }),
        works_(static_cast<size_t>(request.bucket_count)) {
    hand_off_ = device_.hand_off();
    if (mode == StepMode::StagedOwnQueue)
      hand_off_ = std::make_shared<CopyingHandOff>(hand_off_, group.world(), rank, copy_ns_);
    report_.ready_ns.resize(works_.size());
    report_.averaged_ns.resize(works_.size());
  }

  void begin(TimeNs at_ns) {
    begin_ns_ = at_ns;
    add_steps();
    group_.world().at(at_ns, rank_, [this] { go_on(); });
  }

  bool is_over() const { return is_over_; }
  const Status& failure() const { return failure_; }
  TimeNs end_ns() const { return end_ns_; }

  StepReport report() const {
    StepReport report = report_;
    report.device_waits = static_cast<int>(device_.counts().device_waits);
    return report;
  }

 private:
  struct HostStep {
    std::function<bool()> may_run;  // empty: at once
    std::function<void()> run;
    TimeNs duration_ns = 0;
  };

  TimeNs now() const { return group_.world().clock().now() - begin_ns_; }

  void add_steps() {
    if (computes(mode_) && request_.forward_ns > 0)
      add([this] { encode("forward", request_.forward_ns, {}); });
    for (size_t index = 0; index < works_.size(); ++index) {
      if (computes(mode_)) add_backward(index);
      if (is_handed_off(mode_) || mode_ == StepMode::Communication)
        add([this, index] { average(index); });
      if (mode_ == StepMode::DrainPerBucket) {
        add_wait_for_device();
        add([this, index] { average(index); });
      }
      if (mode_ == StepMode::StagedAndWaited) add_staged(index);
    }
    add([this] { device_.commit(); });
    if (mode_ == StepMode::Serialized) {
      add_wait_for_device();
      for (size_t index = 0; index < works_.size(); ++index) add([this, index] { average(index); });
    }
    if (mode_ == StepMode::CopyAfterwards) {
      add_wait_for_device();
      for (size_t index = 0; index < works_.size(); ++index) add_staged(index);
    }
    add_optimizer();
  }

  void add_backward(size_t index) {
    const TimeNs duration = request_.backward_ns / request_.bucket_count;
    add(
        [this, index, duration] {
          encode("backward", duration, [this, index] {
            report_.ready_ns[index] = now();
            report_.compute_end_ns = now();
          });
        },
        request_.host_ns);
  }

  // Copy out, average, copy back; the host waits for each.
  void add_staged(size_t index) {
    add([this] { encode_copy(); });
    add_wait_for_device();
    add([this, index] { average(index); });
    add_wait_for_work(index);
    add([this] { encode_copy(); });
    add_wait_for_device();
  }

  // The optimizer reads every bucket; it takes no time of its own.
  void add_optimizer() {
    for (size_t index = 0; index < works_.size(); ++index) {
      if (is_handed_off(mode_))
        add([this, index] { note(works_[index]->wait_on_stream().status()); });
      else if (mode_ != StepMode::Compute)
        add_wait_for_work(index);
    }
    add([this] {
      encode("optimizer", 0, [this] {
        end_ns_ = now();
        is_over_ = true;
      });
      device_.commit();
    });
  }

  void add(std::function<void()> run, TimeNs duration_ns = 0) {
    steps_.push_back({{}, std::move(run), duration_ns});
  }
  void add_wait_for_device() {
    add([this] { device_.commit(); });
    steps_.push_back({[this] { return device_.is_idle(); }, [] {}});
  }
  void add_wait_for_work(size_t index) {
    steps_.push_back({[this, index] { return works_[index]->is_done(); }, [] {}});
  }

  void go_on() {
    while (next_ < steps_.size() && failure_.is_ok()) {
      const HostStep& step = steps_[next_];
      if (step.may_run && !step.may_run()) {
        if (waiting_since_ns_ < 0) waiting_since_ns_ = now();
        return;
      }
      if (waiting_since_ns_ >= 0) {
        ++report_.host_waits;
        report_.host_wait_ns += now() - waiting_since_ns_;
        waiting_since_ns_ = -1;
      }
      step.run();
      ++next_;
      if (step.duration_ns == 0) continue;
      const TimeNs until_ns = group_.world().clock().now() + step.duration_ns;
      is_busy_ = true;
      return group_.world().at(until_ns, rank_, [this] {
        is_busy_ = false;
        go_on();
      });
    }
  }

  // Something happened that the host may be waiting for.
  void notice() {
    group_.world().at(group_.world().clock().now(), rank_, [this] {
      if (!is_busy_ && waiting_since_ns_ >= 0) go_on();
    });
  }

  void encode(const char* name, TimeNs duration_ns, std::function<void()> at_end) {
    device_.encode(
        {.name = name, .duration_ns = duration_ns, .run = [this, at_end = std::move(at_end)] {
           if (at_end) at_end();
           notice();
         }});
  }

  void encode_copy() {
    ++report_.copies;
    encode("copy", copy_ns_, {});
  }

  void average(size_t index) {
    float* const data = buckets_ + static_cast<int64_t>(index) * count();
    if (mode_ == StepMode::StagedOwnQueue) report_.copies += 2;
    Result<std::shared_ptr<Work>> work = group_.communicator(rank_).all_reduce(
        data, data, count(), DataType::Float32, ReduceOp::Sum,
        {.on_complete =
             [this, index](const Status& status) {
               note(status);
               report_.averaged_ns[index] = now();
               notice();
             },
         .hand_off = is_handed_off(mode_) ? hand_off_ : nullptr});
    if (work.is_ok())
      works_[index] = std::move(work).value();
    else
      note(work.status());
  }

  int64_t count() const { return request_.bucket_bytes / kElementBytes; }

  void note(const Status& status) {
    if (failure_.is_ok()) failure_ = status;
  }

  const StepRequest& request_;
  StepMode mode_;
  SimulatedGroup& group_;
  int rank_;
  float* buckets_;
  TimeNs copy_ns_;
  sim::Device device_;
  std::shared_ptr<HandOff> hand_off_;
  std::vector<std::shared_ptr<Work>> works_;
  std::vector<HostStep> steps_;
  size_t next_ = 0;
  bool is_busy_ = false;
  TimeNs waiting_since_ns_ = -1;
  TimeNs begin_ns_ = 0;
  TimeNs end_ns_ = 0;
  bool is_over_ = false;
  Status failure_;
  StepReport report_;
};

// Connections exist and nothing is under way afterwards.
Status warm_up(SimulatedGroup& group, float* data) {
  std::vector<std::shared_ptr<Work>> works;
  for (int rank = 0; rank < group.rank_count(); ++rank) {
    Result<std::shared_ptr<Work>> work = group.communicator(rank).all_reduce(
        data, data, group.rank_count(), DataType::Float32, ReduceOp::Sum);
    if (!work.is_ok()) return work.status();
    works.push_back(std::move(work).value());
  }
  if (!group.run(works)) return Status(StatusCode::Internal, "the first operation is stuck");
  (void)group.world().run([] { return false; });
  return Status::ok();
}

}  // namespace

std::string_view step_mode_name(StepMode mode) {
  return kModeNames[static_cast<size_t>(mode)];
}

Status check_step(const StepRequest& request) {
  const auto wrong = [](const std::string& text) {
    return Status(StatusCode::InvalidArgument, text);
  };
  if (request.bucket_bytes < kElementBytes)
    return wrong(fmt::format("buckets of {} bytes hold no element", request.bucket_bytes));
  if (request.bucket_bytes > kMemoryMax / request.bucket_count)
    return wrong(fmt::format("{} buckets of {} bytes need more than {} bytes of memory",
                             request.bucket_count, request.bucket_bytes, kMemoryMax));
  if (!request.lateness_ns.empty() &&
      request.lateness_ns.size() != static_cast<size_t>(request.rank_count))
    return wrong("one lateness per rank is needed");
  return Status::ok();
}

Result<StepReport> run_step(const StepRequest& request, StepMode mode) {
  MCCL_RETURN_IF_ERROR(check_step(request));
  Result<Config> config = parse_config(
      Environment{{"MCCL_PROFILE", std::string(cost_profile_name(request.link.settings.profile))},
                  {"MCCL_LOG", "warning"},
                  {"MCCL_TIMEOUT", "10000000"},
                  {"MCCL_DEVICE_WAIT", "10000000"}},
      nullptr);
  if (!config.is_ok()) return config.status();
  sim::WorldOptions world;
  world.latency_ns = request.link.costs.alpha_ns;
  world.bytes_per_second = request.link.costs.bytes_per_second;
  SimulatedGroup group(request.rank_count, world,
                       {.config = config.value(), .costs = request.link.costs});
  MCCL_RETURN_IF_ERROR(group.add_communicator("world").status());
  // Shared by all ranks: what is in them does not matter to when things happen.
  std::vector<float> buckets(static_cast<size_t>(request.bucket_count) *
                             static_cast<size_t>(request.bucket_bytes / kElementBytes));
  buckets.resize(std::max(buckets.size(), static_cast<size_t>(request.rank_count)));
  MCCL_RETURN_IF_ERROR(warm_up(group, buckets.data()));

  std::vector<std::unique_ptr<RankStep>> steps;
  const TimeNs begin_ns = group.world().clock().now();
  for (int rank = 0; rank < request.rank_count; ++rank) {
    steps.push_back(std::make_unique<RankStep>(request, mode, group, rank, buckets.data()));
    const TimeNs late_ns =
        request.lateness_ns.empty() ? 0 : request.lateness_ns[static_cast<size_t>(rank)];
    steps.back()->begin(begin_ns + late_ns);
  }
  const bool is_over = group.world().run([&] {
    return std::all_of(steps.begin(), steps.end(), [](const std::unique_ptr<RankStep>& step) {
      return step->is_over() || !step->failure().is_ok();
    });
  });
  for (const std::unique_ptr<RankStep>& step : steps) MCCL_RETURN_IF_ERROR(step->failure());
  if (!is_over) return Status(StatusCode::Internal, "the step is stuck");
  StepReport report = steps[0]->report();
  for (size_t rank = 0; rank < steps.size(); ++rank) {
    report.rank_ns.push_back(steps[rank]->end_ns());
    report.buffered_bytes_max = std::max<uint64_t>(
        report.buffered_bytes_max, group.buffered_bytes_max(static_cast<int>(rank)));
  }
  report.step_ns = *std::max_element(report.rank_ns.begin(), report.rank_ns.end());
  return report;
}

}  // namespace mccl
