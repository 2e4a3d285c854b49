#include "sim/hand_off_run.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/prng.h"
#include "support/sim_group.h"

namespace mccl {
namespace {

using sim::Kernel;
using sim::MemoryRange;

constexpr uint64_t kRanksMax = 4;
constexpr float kBystander = -7;

// The same on every rank.
struct Plan {
  int rank_count;
  int steps;
  std::vector<int64_t> counts;  // of each bucket's elements
};

Plan draw_plan(Prng& prng) {
  Plan plan{.rank_count = 2 + static_cast<int>(prng.below(kRanksMax - 1)),
            .steps = 1 + static_cast<int>(prng.below(2)),
            .counts = {}};
  const uint64_t bucket_count = 1 + prng.below(4);
  for (uint64_t bucket = 0; bucket < bucket_count; ++bucket)
    plan.counts.push_back(1 + static_cast<int64_t>(prng.below(prng.below(4) == 0 ? 20'000 : 300)));
  return plan;
}

// What `rank`'s kernel writes; sums of small integers are exact in every order.
float gradient(int rank, int step, size_t bucket, int64_t index) {
  return static_cast<float>((rank + 1) * (1 + step + 3 * static_cast<int>(bucket)) +
                            static_cast<int>(index % 17));
}

float sum_of_gradients(int rank_count, int step, size_t bucket, int64_t index) {
  float sum = 0;
  for (int rank = 0; rank < rank_count; ++rank) sum += gradient(rank, step, bucket, index);
  return sum;
}

MemoryRange range_of(const float* data, int64_t count) {
  return {data, static_cast<size_t>(count) * sizeof(float)};
}

// A rank's host program: its calls, one after another with a little time between them, and the
// device that runs behind it.
class RankHost {
 public:
  RankHost(const HandOffRunOptions& options, const Plan& plan, SimGroup& group, int rank)
      : options_(options),
        plan_(plan),
        group_(group),
        rank_(rank),
        prng_(options.seed * 1'000 + static_cast<uint64_t>(rank)),
        is_slow_device_(prng_.below(2) == 0),
        device_({.seed = prng_.next(), .delay_jitter = 0.5, .fault = options.device_fault},
                group.world().clock(), [this](TimeNs time_ns) {
                  group_.world().at(time_ns, rank_, [this] { device_.run(); });
                }) {}

  void begin() {
    for (int step = 0; step < plan_.steps; ++step) add_step(step);
    group_.world().at(static_cast<TimeNs>(prng_.below(2 * kNsPerMs)), rank_, [this] { go_on(); });
  }

  bool is_over() const {
    return next_call_ == calls_.size() && device_.is_idle() &&
           std::all_of(works_.begin(), works_.end(),
                       [](const std::shared_ptr<Work>& work) { return work->is_done(); });
  }

  void report(HandOffRunOutcome& outcome) const {
    outcome.wrong_elements += wrong_elements_;
    outcome.errors.insert(outcome.errors.end(), errors_.begin(), errors_.end());
    for (const std::shared_ptr<Work>& work : works_)
      if (work->is_done() && !work->status().is_ok())
        outcome.errors.push_back(work->status().message());
    for (const std::string& violation : device_.violations())
      outcome.violations.push_back("rank " + std::to_string(rank_) + ": " + violation);
    outcome.drains += device_.counts().drains;
    outcome.device_waits += device_.counts().device_waits;
    outcome.all_reduces += all_reduce_count_;
  }

 private:
  struct Bucket {
    float* data = nullptr;       // what the backward pass writes
    float* reduced = nullptr;    // what is averaged: the same, but for a temporary
    float* bystander = nullptr;  // somebody else's memory, asked for right after the call
    std::shared_ptr<Work> work;
  };

  // To the next rank, from the one before.
  struct Messages {
    float* sent = nullptr;
    float* received = nullptr;
    std::shared_ptr<Work> send;
    std::shared_ptr<Work> receive;
    bool are_done() const {
      return send == nullptr || receive == nullptr || (send->is_done() && receive->is_done());
    }
  };

  void go_on() {
    if (next_call_ == calls_.size()) return;
    is_waiting_ = !calls_[next_call_]();
    if (is_waiting_) return;
    ++next_call_;
    const TimeNs gap = static_cast<TimeNs>(prng_.below(40 * kNsPerUs));
    group_.world().at(group_.world().clock().now() + gap, rank_, [this] { go_on(); });
  }

  // A message is done: the host may be waiting for it.
  void notice() {
    group_.world().at(group_.world().clock().now(), rank_, [this] {
      if (std::exchange(is_waiting_, false)) go_on();
    });
  }

  // A call that the host need not wait before.
  void add(std::function<void()> call) {
    calls_.push_back([call = std::move(call)] {
      call();
      return true;
    });
  }

  TimeNs draw_duration() {
    return static_cast<TimeNs>(prng_.below(is_slow_device_ ? 2 * kNsPerMs : 50 * kNsPerUs));
  }

  void add_step(int step) {
    auto buckets = std::make_shared<std::vector<Bucket>>(plan_.counts.size());
    for (size_t index = 0; index < plan_.counts.size(); ++index) {
      add([=, this] { write_bucket(step, index, (*buckets)[index]); });
      add([=, this] { reduce_bucket(index, (*buckets)[index]); });
      if (prng_.below(2) == 0) add([this] { encode_other_work(); });
    }
    auto messages = std::make_shared<Messages>();
    add([=, this] { write_message(step, *messages); });
    add([=, this] { exchange_messages(*messages); });
    std::vector<size_t> order(plan_.counts.size());
    for (size_t index = 0; index < order.size(); ++index) order[index] = index;
    for (size_t left = order.size(); left > 1; --left)
      std::swap(order[left - 1], order[prng_.below(left)]);
    for (const size_t index : order)
      add([=, this] { read_bucket(step, index, (*buckets)[index]); });
    // The host waits for messages.
    calls_.push_back([=] { return messages->are_done(); });
    add([=, this] { read_message(step, *messages); });
    add([this] { device_.commit(); });
  }

  float* allocate(int64_t count) {
    return static_cast<float*>(device_.allocate(range_of(nullptr, count).bytes));
  }

  void encode_other_work() {
    device_.encode({.name = "other work", .duration_ns = draw_duration()});
  }

  void write_bucket(int step, size_t index, Bucket& bucket) {
    const int64_t count = plan_.counts[index];
    bucket.data = allocate(count);
    device_.encode({.name = "backward",
                    .duration_ns = draw_duration(),
                    .writes = {range_of(bucket.data, count)},
                    .run = [=, this, data = bucket.data] {
                      for (int64_t i = 0; i < count; ++i) data[i] = gradient(rank_, step, index, i);
                    }});
  }

  void reduce_bucket(size_t index, Bucket& bucket) {
    const int64_t count = plan_.counts[index];
    bucket.reduced = bucket.data;
    if (options_.caller_fault == CallerFault::Temporary) {
      bucket.reduced = allocate(count);
      encode_copy(bucket.data, bucket.reduced, count);
    }
    Result<std::shared_ptr<Work>> work = group_.communicator(rank_).all_reduce(
        bucket.reduced, bucket.reduced, count, DataType::Float32, ReduceOp::Sum,
        {.hand_off = device_.hand_off()});
    if (!work.is_ok()) {
      errors_.push_back(work.status().message());
      return;
    }
    ++all_reduce_count_;
    bucket.work = work.value();
    works_.push_back(work.value());
    device_.note_memory(device_.counts().tickets, {.reads = {range_of(bucket.reduced, count)},
                                                   .writes = {range_of(bucket.reduced, count)}});
    if (options_.caller_fault != CallerFault::None) device_.release(bucket.reduced);
    bucket.bystander = allocate(count);
    device_.encode(
        {.name = "bystander",
         .writes = {range_of(bucket.bystander, count)},
         .run = [data = bucket.bystander, count] { std::fill(data, data + count, kBystander); }});
  }

  void encode_copy(const float* from, float* to, int64_t count) {
    device_.encode({.name = "copy",
                    .duration_ns = draw_duration(),
                    .reads = {range_of(from, count)},
                    .writes = {range_of(to, count)},
                    .run = [=] { std::copy(from, from + count, to); }});
  }

  void read_bucket(int step, size_t index, Bucket& bucket) {
    if (bucket.work == nullptr) return;
    const Result<bool> waited = bucket.work->wait_on_stream();
    if (!waited.is_ok() || !waited.value())
      errors_.push_back(waited.is_ok() ? "the host would have to wait" : waited.status().message());
    const int64_t count = plan_.counts[index];
    if (bucket.reduced != bucket.data) encode_copy(bucket.reduced, bucket.data, count);
    device_.encode({.name = "optimizer",
                    .duration_ns = draw_duration(),
                    .reads = {range_of(bucket.data, count), range_of(bucket.bystander, count)},
                    .run = [=, this, data = bucket.data, bystander = bucket.bystander] {
                      for (int64_t i = 0; i < count; ++i) {
                        const float sum = sum_of_gradients(plan_.rank_count, step, index, i);
                        if (data[i] != sum) ++wrong_elements_;
                        if (bystander[i] != kBystander) ++wrong_elements_;
                      }
                    }});
    // From here on the stream's order protects the memory.
    if (options_.caller_fault != CallerFault::EarlyRelease) device_.release(bucket.data);
    device_.release(bucket.bystander);
  }

  float message(int rank, int step, int64_t index) const {
    return static_cast<float>(rank * 100 + step + static_cast<int>(index % 5));
  }

  void write_message(int step, Messages& messages) {
    const int64_t count = plan_.counts[0];
    messages.sent = allocate(count);
    messages.received = allocate(count);
    // The receive's memory is still in use when the receive is called.
    device_.encode({.name = "writes a message",
                    .duration_ns = draw_duration(),
                    .writes = {range_of(messages.sent, count), range_of(messages.received, count)},
                    .run = [=, this, sent = messages.sent, received = messages.received] {
                      for (int64_t i = 0; i < count; ++i) sent[i] = message(rank_, step, i);
                      std::fill(received, received + count, kBystander);
                    }});
  }

  void exchange_messages(Messages& messages) {
    const int64_t count = plan_.counts[0];
    const int ranks = plan_.rank_count;
    const auto options = [this] {
      return CallOptions{.on_complete = [this](const Status&) { notice(); },
                         .hand_off = device_.hand_off()};
    };
    Communicator& communicator = group_.communicator(rank_);
    const auto keep = [&](Result<std::shared_ptr<Work>> work, sim::TicketMemory memory) {
      if (!work.is_ok()) {
        errors_.push_back(work.status().message());
        return std::shared_ptr<Work>();
      }
      device_.note_memory(device_.counts().tickets, std::move(memory));
      works_.push_back(work.value());
      return std::move(work).value();
    };
    messages.receive = keep(communicator.recv(messages.received, count, DataType::Float32,
                                              (rank_ + ranks - 1) % ranks, 7, options()),
                            {.writes = {range_of(messages.received, count)}});
    messages.send = keep(communicator.send(messages.sent, count, DataType::Float32,
                                           (rank_ + 1) % ranks, 7, options()),
                         {.reads = {range_of(messages.sent, count)}});
  }

  void read_message(int step, Messages& messages) {
    if (messages.receive == nullptr || messages.send == nullptr) return;
    const int64_t count = plan_.counts[0];
    const int source = (rank_ + plan_.rank_count - 1) % plan_.rank_count;
    device_.encode({.name = "reads a message",
                    .reads = {range_of(messages.received, count)},
                    .run = [=, this, received = messages.received] {
                      for (int64_t i = 0; i < count; ++i)
                        if (received[i] != message(source, step, i)) ++wrong_elements_;
                    }});
    device_.release(messages.sent);
    device_.release(messages.received);
  }

  const HandOffRunOptions& options_;
  const Plan& plan_;
  SimGroup& group_;
  int rank_;
  Prng prng_;
  bool is_slow_device_;
  sim::Device device_;
  std::vector<std::function<bool()>> calls_;  // false: call again when a message is done
  bool is_waiting_ = false;
  size_t next_call_ = 0;
  std::vector<std::shared_ptr<Work>> works_;
  std::vector<std::string> errors_;
  uint64_t wrong_elements_ = 0;
  uint64_t all_reduce_count_ = 0;
};

}  // namespace

std::string HandOffRunOutcome::describe() const {
  if (is_clean()) return {};
  std::string text = has_ended ? "" : "stuck; ";
  if (wrong_elements > 0) text += std::to_string(wrong_elements) + " wrong elements; ";
  for (const std::string& error : errors) text += error + "; ";
  for (const std::string& violation : violations) text += violation + "; ";
  return text;
}

HandOffRunOutcome run_hand_off(const HandOffRunOptions& options,
                               const std::shared_ptr<ProgramProver>& prover) {
  Prng prng(options.seed);
  const Plan plan = draw_plan(prng);
  const sim::WorldOptions world{
      .seed = prng.next(),
      .latency_ns = static_cast<int64_t>(1'000 + prng.below(300'000)),
      .bytes_per_second = static_cast<int64_t>(10'000'000 + prng.below(2'000'000'000)),
      .latency_jitter = static_cast<double>(prng.below(2)),
      .reads_late = prng.below(2) == 0};
  SimGroup group(plan.rank_count, world,
                 {.settings = {{"MCCL_LOG", "error"}},
                  .portions = PlanPortions{.slice_bytes = 4096, .window_bytes = 8192},
                  .prover = prover});
  std::vector<std::unique_ptr<RankHost>> hosts;
  for (int rank = 0; rank < plan.rank_count; ++rank) {
    hosts.push_back(std::make_unique<RankHost>(options, plan, group, rank));
    hosts.back()->begin();
  }
  HandOffRunOutcome outcome;
  outcome.has_ended = group.world().run([&] {
    return std::all_of(hosts.begin(), hosts.end(),
                       [](const std::unique_ptr<RankHost>& host) { return host->is_over(); });
  });
  for (const std::unique_ptr<RankHost>& host : hosts) host->report(outcome);
  // Works that were never done end with their communicator, while their devices still exist.
  for (int rank = 0; rank < plan.rank_count; ++rank) group.destroy_communicator(rank);
  return outcome;
}

}  // namespace mccl
