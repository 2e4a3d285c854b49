#include "sim/fault_run.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "comm/simulated_group.h"

namespace mccl {
namespace {

constexpr TimeNs kPeerTimeoutNs = kNsPerSecond;
// By then whatever was lost has been noticed and told everywhere.
constexpr TimeNs kNoticedNs = 3 * kNsPerSecond;
constexpr TimeNs kEndNs = 600 * kNsPerSecond;

// The largest stalls and lateness are far above every patience of the engine.
constexpr TimeNs kWaitMaxNs = 8 * kNsPerSecond;

struct RankState {
  std::vector<std::vector<float>> data;  // of each call
  size_t posted = 0;
  size_t completed = 0;
  Status failure;  // the first one
  bool is_gone = false;
};

class FaultRun {
 public:
  FaultRun(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) : prng_(seed) {
    rank_count_ = 2 + draw(15);
    call_count_ = 1 + static_cast<size_t>(draw(8));
    in_flight_max_ = 1 + static_cast<size_t>(draw(3));
    fault_ = static_cast<Fault>(draw(kFaultCount));
    victim_ = draw(rank_count_);
    other_ = (victim_ + 1 + draw(rank_count_ - 1)) % rank_count_;
    for (size_t call = 0; call < call_count_; ++call) {
      kinds_.push_back(draw(4));
      // Small calls, and some of many slices.
      counts_.push_back(draw(4) == 0 ? 1 + draw(100'000) : 1 + draw(64));
      roots_.push_back(draw(rank_count_));
    }
    make_group(seed, prover);
    ranks_.resize(static_cast<size_t>(rank_count_));
  }

  std::string run() {
    if (!failure_.empty()) return failure_;
    const TimeNs begin_spread_ns = 1 + draw(3) * 5 * kNsPerMs;
    for (int rank = 0; rank < rank_count_; ++rank)
      post_at(draw_time(begin_spread_ns) + lateness_of(rank), rank);
    // From before the first connection is made to after the last call.
    plan_fault(draw_time(draw(2) == 0 ? 2 * kNsPerMs : 60 * kNsPerMs));
    (void)group_->world().run([this] { return is_over(); }, kEndNs);
    if (!is_over()) fail(describe_stuck());
    const TimeNs noticed_at = std::max(group_->world().clock().now(), fault_at_) + kNoticedNs;
    (void)group_->world().run([] { return false; }, noticed_at);
    check();
    return failure_.empty() ? failure_
                            : std::string(fault_name(fault_)) + " of rank " +
                                  std::to_string(victim_) + " of " + std::to_string(rank_count_) +
                                  " at " + std::to_string(fault_at_) + " ns: " + failure_;
  }

 private:
  int draw(int bound) { return static_cast<int>(prng_.below(static_cast<uint64_t>(bound))); }
  TimeNs draw_time(TimeNs bound) {
    return static_cast<TimeNs>(prng_.below(static_cast<uint64_t>(bound)));
  }
  void fail(const std::string& text) {
    if (failure_.empty()) failure_ = text;
  }
  bool loses() const { return fault_ != Fault::Stall && fault_ != Fault::LateRank; }
  TimeNs lateness_of(int rank) {
    return fault_ == Fault::LateRank && rank == victim_ ? draw_time(kWaitMaxNs) : 0;
  }

  void make_group(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
    sim::WorldOptions world;
    world.seed = seed;
    world.latency_ns = 1'000 + draw(400'000);
    world.latency_jitter = draw(3);
    world.bytes_per_second = int64_t{10'000'000} << draw(8);
    world.segment_bytes_max = size_t{1024} << draw(7);
    world.queue_bytes_max = size_t{64 * 1024} << draw(7);
    world.reads_late = draw(4) == 0;
    world.peer_timeout_ns = kPeerTimeoutNs;
    SimulatedGroupOptions options;
    options.prover = prover;
    options.has_timers = true;
    options.log = [](int, std::string_view) {};
    group_ = std::make_unique<SimulatedGroup>(rank_count_, world, options);
    const Result<size_t> added = group_->add_communicator("world");
    if (!added.is_ok()) fail("no communicator: " + added.status().to_string());
  }

  void plan_fault(TimeNs time_ns) {
    fault_at_ = time_ns;
    sim::World& world = group_->world();
    const int bystander = other_;
    switch (fault_) {
      case Fault::Death:
        return world.at(time_ns, bystander, [this] { lose(victim_, &sim::World::kill); });
      case Fault::Vanish:
        return world.at(time_ns, bystander, [this] { lose(victim_, &sim::World::vanish); });
      case Fault::Reset:
        return world.at(time_ns, bystander, [this] { group_->world().reset(victim_, other_); });
      case Fault::Stall:
        world.at(time_ns, bystander, [this] { group_->world().pause(victim_); });
        return world.at(time_ns + 1 + draw_time(kWaitMaxNs), bystander,
                        [this] { group_->world().resume(victim_); });
      case Fault::LateRank:
        return;
    }
  }

  void lose(int rank, void (sim::World::*how)(int)) {
    ranks_[static_cast<size_t>(rank)].is_gone = true;
    (group_->world().*how)(rank);
  }

  void post_at(TimeNs time_ns, int rank) {
    group_->world().at(time_ns, rank, [this, rank] { post_more(rank); });
  }

  void post_more(int rank) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    while (state.failure.is_ok() && state.posted < call_count_ &&
           state.posted - state.completed < in_flight_max_)
      post(rank, state);
  }

  void post(int rank, RankState& state) {
    const size_t call = state.posted++;
    state.data.emplace_back(static_cast<size_t>(counts_[call]), static_cast<float>(rank + 1));
    CallOptions options;
    options.on_complete = [this, rank](const Status& status) {
      RankState& own = ranks_[static_cast<size_t>(rank)];
      ++own.completed;
      if (!status.is_ok() && own.failure.is_ok()) own.failure = status;
      // Not from inside the engine.
      post_at(group_->world().clock().now() + 1'000, rank);
    };
    const Result<std::shared_ptr<Work>> work =
        make_call(rank, call, state.data.back().data(), std::move(options));
    if (work.is_ok()) return;
    ++state.completed;
    if (state.failure.is_ok()) state.failure = work.status();
  }

  Result<std::shared_ptr<Work>> make_call(int rank, size_t call, float* data, CallOptions options) {
    Communicator& communicator = group_->communicator(rank);
    switch (kinds_[call]) {
      case 0:
        return communicator.broadcast(data, counts_[call], DataType::Float32, roots_[call],
                                      std::move(options));
      case 1:
        return communicator.reduce(data, data, counts_[call], DataType::Float32, ReduceOp::Sum,
                                   roots_[call], std::move(options));
      case 2:
        return communicator.barrier(std::move(options));
      default:
        return communicator.all_reduce(data, data, counts_[call], DataType::Float32, ReduceOp::Sum,
                                       std::move(options));
    }
  }

  float expected(int rank, size_t call) const {
    const float sum = static_cast<float>(rank_count_ * (rank_count_ + 1)) / 2;
    switch (kinds_[call]) {
      case 0:
        return static_cast<float>(roots_[call] + 1);
      case 1:
        return rank == roots_[call] ? sum : static_cast<float>(rank + 1);
      case 2:
        return static_cast<float>(rank + 1);
      default:
        return sum;
    }
  }

  bool is_over() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [this](const RankState& state) {
      const bool is_done = state.completed == call_count_ || !state.failure.is_ok();
      return state.is_gone || (is_done && state.completed == state.posted);
    });
  }

  std::string describe_stuck() const {
    std::string text = "stuck:";
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankState& state = ranks_[rank];
      if (state.is_gone) continue;
      text += " rank " + std::to_string(rank) + " completed " + std::to_string(state.completed) +
              " of " + std::to_string(state.posted) + " posted" +
              (state.failure.is_ok() ? "" : ", " + state.failure.to_string()) + ";";
    }
    return text;
  }

  void check() {
    std::optional<std::pair<int, int>> first_cause;
    for (int rank = 0; rank < rank_count_ && failure_.empty(); ++rank) {
      RankState& state = ranks_[static_cast<size_t>(rank)];
      if (state.is_gone) continue;
      const std::string name = "rank " + std::to_string(rank);
      if (state.failure.is_ok()) check_values(rank, state);
      // Who has finished before it heard of anything hears of it at the next call.
      if (state.failure.is_ok()) {
        std::vector<float> data(1);
        const Result<std::shared_ptr<Work>> next = group_->communicator(rank).barrier({});
        if (!next.is_ok()) state.failure = next.status();
        // Nobody waited for the host that vanished: this call does.
        if (next.is_ok() && fault_ == Fault::Vanish) {
          const Work& work = *next.value();
          const TimeNs now = group_->world().clock().now();
          const TimeNs lost_at = now + kPeerTimeoutNs + kNoticedNs;
          group_->world().at(now, rank, [] {});  // as a caller wakes its driver
          (void)group_->world().run([&work] { return work.is_done(); }, lost_at);
          if (work.is_done()) state.failure = work.status();
        }
      }
      if (!loses()) {
        if (!state.failure.is_ok()) fail(name + " failed: " + state.failure.to_string());
        continue;
      }
      check_cause(name, state.failure, first_cause);
      if (!state.failure.is_ok() && group_->communicator(rank).stats().parked_bytes != 0)
        fail(name + " holds memory");
    }
  }

  void check_values(int rank, const RankState& state) {
    for (size_t call = 0; call < state.data.size(); ++call)
      for (const float value : state.data[call])
        if (value != expected(rank, call))
          return fail("call " + std::to_string(call) + " of rank " + std::to_string(rank) + " is " +
                      std::to_string(value) + " instead of " +
                      std::to_string(expected(rank, call)));
  }

  void check_cause(const std::string& name, const Status& failure,
                   std::optional<std::pair<int, int>>& first_cause) {
    // Two processes without a connection between them lose none.
    if (failure.is_ok() && fault_ == Fault::Reset && !first_cause) {
      first_cause = {-1, -1};
      return;
    }
    if (failure.is_ok()) {
      if (fault_ != Fault::Reset || *first_cause != std::pair(-1, -1))
        fail(name + " has not heard of it");
      return;
    }
    if (failure.code() != StatusCode::PeerLost) return fail(name + ": " + failure.to_string());
    std::pair<int, int> cause = std::minmax(failure.rank(), failure.peer());
    if (fault_ == Fault::Reset) {
      if (cause != std::pair<int, int>(std::minmax(victim_, other_)))
        fail(name + " names others: " + failure.to_string());
      if (first_cause && *first_cause == std::pair(-1, -1)) fail("not every rank has heard of it");
      first_cause = cause;
      return;
    }
    if (failure.peer() != victim_) fail(name + " names another: " + failure.to_string());
    if (failure.message().find("rank " + std::to_string(victim_) + " (host") == std::string::npos)
      fail(name + " does not say which host: " + failure.to_string());
  }

  Prng prng_;
  int rank_count_ = 0;
  size_t call_count_ = 0;
  size_t in_flight_max_ = 1;
  Fault fault_ = Fault::Death;
  int victim_ = 0;
  int other_ = 0;
  TimeNs fault_at_ = 0;
  std::vector<int> kinds_;
  std::vector<int> counts_;
  std::vector<int> roots_;
  std::vector<RankState> ranks_;  // before the group, whose calls use their memory
  std::unique_ptr<SimulatedGroup> group_;
  std::string failure_;
};

}  // namespace

std::string_view fault_name(Fault fault) {
  constexpr std::array<std::string_view, kFaultCount> kNames = {"death", "reset", "stall", "vanish",
                                                                "lateness"};
  return kNames[static_cast<size_t>(fault)];
}

std::string run_fault_seed(uint64_t seed, const std::shared_ptr<ProgramProver>& prover) {
  return FaultRun(seed, prover).run();
}

}  // namespace mccl
