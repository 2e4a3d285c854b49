#include "base/check.h"
#include "comm/communicator_core.h"
#include "planner/call_plan.h"
#include "ring_rank.h"

namespace mccl {
namespace {

class EngineRank final : public RingRank {
 public:
  EngineRank(WireContext& wires, const Clock& clock, Store& store, int rank, int rank_count) {
    const Environment settings = {{"MCCL_ALGO", "all_reduce_ring"}, {"MCCL_LOG", "warning"}};
    Result<Config> config = parse_config(settings, nullptr);
    MCCL_CHECK_EQ(config.status().to_string(), "ok");
    endpoint_ =
        EndpointCore::create_passive(wires, clock, config.value(), static_cast<uint64_t>(rank) + 1);
    endpoint_->override_portions(
        {.slice_bytes = kRingSliceBytes, .window_bytes = kRingWindowBytes});
    Result<CommunicatorCore::Rendezvous> published =
        CommunicatorCore::publish(*endpoint_, store, rank, rank_count, {});
    MCCL_CHECK_EQ(published.status().to_string(), "ok");
    rendezvous_.emplace(std::move(published).value());
  }

  void meet() override {
    Result<std::unique_ptr<CommunicatorCore>> core = CommunicatorCore::finish(*rendezvous_);
    MCCL_CHECK_EQ(core.status().to_string(), "ok");
    communicator_ = std::make_unique<Communicator>(std::move(core).value());
  }

  void begin(float* data, int64_t count) override {
    Result<std::shared_ptr<Work>> work =
        communicator_->all_reduce(data, data, count, DataType::Float32, ReduceOp::Sum,
                                  {.on_complete = {}, .will_wait = true});
    MCCL_CHECK_EQ(work.status().to_string(), "ok");
    work_ = std::move(work).value();
  }

  bool is_done() const override {
    if (!work_->is_done()) return false;
    MCCL_CHECK_EQ(work_->status().to_string(), "ok");
    return true;
  }

  void step() override { endpoint_->step(); }

 private:
  std::unique_ptr<EndpointCore> endpoint_;
  std::optional<CommunicatorCore::Rendezvous> rendezvous_;
  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<Work> work_;
};

}  // namespace

std::unique_ptr<RingRank> make_engine_rank(WireContext& wires, const Clock& clock, Store& store,
                                           int rank, int rank_count) {
  return std::make_unique<EngineRank>(wires, clock, store, rank, rank_count);
}

RingCut cut_ring(int64_t count, int rank_count) {
  PlanEntry entry;
  entry.algorithm = "all_reduce_ring";
  entry.slice_bytes = kRingSliceBytes;
  entry.window_bytes = kRingWindowBytes;
  entry.channel_sets = 4;
  const ProgramShape shape{
      .chunk_count = rank_count, .recv_stream_count = 1, .message_chunk_count = 1};
  const Result<CallPlan> plan =
      plan_call(entry, shape, count, sizeof(float), Config{}.park_limit_bytes);
  MCCL_CHECK_EQ(plan.status().to_string(), "ok");
  return {plan.value().iteration_count, plan.value().instance_count,
          plan.value().slice_bytes / static_cast<int64_t>(sizeof(float))};
}

}  // namespace mccl
